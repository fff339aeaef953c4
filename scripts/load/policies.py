#!/usr/bin/env python3
"""What policies cost as they grow in number. A user who is no root user signs by leave of one policy among N; the others are of
the usual sorts, some of them denials, and none of them decides. Beside it the root user signs, for whom no policy is asked. Both
are measured in turn at each N: latency with one client, requests a second and the enclave's memory with 16. Called by
policies.sh with bin/ made ready in a folder that goes afterwards."""
import json, os, re, statistics as st, subprocess, sys, time, uuid

tmp, counts, reps, seconds = sys.argv[1], [int(n) for n in sys.argv[2].split(",")], int(sys.argv[3]), float(sys.argv[4])
port = int(os.environ.get("PORT", "18600"))
if counts != sorted(set(counts)) or not counts or not 2 <= counts[0] <= counts[-1] <= 1000:
    sys.exit("policies: counts must ascend, from 2 to 1000 at most")
ACCOUNT = {"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}


def on(cpu, cmd):
    return cmd if os.environ.get("SPARE") else ["taskset", "-c", str(cpu)] + cmd


class Sim:
    def __init__(self):
        self.data = tmp + "/data"
        self.log = open(tmp + "/sim.log", "w")
        self.p = subprocess.Popen(on(0, [tmp + "/bin/cloister-sim", "-data-dir", self.data, "-api-addr", "127.0.0.1:%d" % port, "-auth-proxy-addr",
                                         "127.0.0.1:%d" % (port + 1), "-log", "none", "-log-level", "warn", "-organizations", "1", "-quotas", "policies=1000"]), stdout=self.log, stderr=self.log)
        while "Cloister is running" not in open(self.log.name).read():
            if self.p.poll() is not None:
                raise SystemExit("the simulator ended: " + open(self.log.name).read()[-2000:])
            time.sleep(0.02)
        self.cred = json.load(open(self.data + "/credentials.json"))
        pids = {l.split()[1]: l.split()[0] for l in open(self.data + "/pids")}
        self.enclave, self.pids = pids["enclave"], pids["enclave"] + "," + pids["host"]

    def stop(self):
        self.p.terminate()
        self.p.wait()

    def submit(self, typ, parameters, result):
        path = "/public/v1/submit/" + re.sub(r"_v\d+$", "", typ.lower())
        body = tmp + "/parameters.json"
        json.dump(parameters, open(body, "w"))
        r = subprocess.run([tmp + "/bin/cloister-host", "request", "-credentials", self.data + "/credentials.json", "-submit", "ACTIVITY_TYPE_" + typ, path, "@" + body],
                           capture_output=True, text=True)
        if r.returncode:
            raise SystemExit(typ + ": " + r.stdout + r.stderr)
        a = json.loads(r.stdout)["activity"]
        if a["status"] != "ACTIVITY_STATUS_COMPLETED":
            raise SystemExit(typ + ": " + a["status"])
        return a["result"][result]

    def memory(self):
        return int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%s/status" % self.enclave).read())[1]) / 1024


def others(first, n, tag, user):
    """n policies, none of which lets or forbids the user sign with the wallet."""
    out = []
    for i in range(first, first + n):
        other = str(uuid.uuid4())
        p = {"policyName": "Policy %d" % i, "effect": "EFFECT_ALLOW", "notes": ""}
        p.update([
            {"condition": "activity.kind == 'SIGN_TRANSACTION' && wallet.id == '%s'" % other, "consensus": "approvers.any(user, user.id == '%s')" % user},
            {"condition": "activity.resource == 'WALLET' && activity.action == 'CREATE'", "consensus": "approvers.filter(user, user.tags.contains('%s')).count() >= 2" % tag},
            {"condition": "wallet.id == '%s'" % other, "consensus": "approvers.any(user, user.tags.contains('%s'))" % tag},
            {"condition": "activity.kind in ['CREATE_USERS', 'CREATE_API_KEYS']", "consensus": "approvers.count() >= 3"},
            {"effect": "EFFECT_DENY", "condition": "wallet.id == '%s' && wallet_account.address == '0x%040x'" % (other, i)},
        ][i % 5])
        out.append(p)
    return out


def load(body, key, clients):
    n = int(seconds * (2500 if clients == 1 else 6000)) + 2000
    while True:
        r = subprocess.run(on(1, [tmp + "/bin/load", "-json", "-c", str(clients), "-d", "%gs" % seconds, "-warm", "300ms", "-render", str(n), "-fresh", "-url",
                                  "http://127.0.0.1:%d/public/v1/submit/sign_raw_payload" % port, "-body", "@" + body, "-stamp", key, "-pids", sim.pids,
                                  "-expect", "signRawPayloadResult"]), capture_output=True, text=True)
        if not r.stdout:
            raise SystemExit("load: " + r.stderr)
        j = json.loads(r.stdout)
        if not j["errors"]:
            return j
        if "ran out" not in j.get("first_error", ""):
            raise SystemExit("errors: %d %s" % (j["errors"], j.get("first_error")))
        n *= 2


sim = Sim()
try:
    wallet = sim.submit("CREATE_WALLET", {"walletName": "Load", "accounts": [ACCOUNT]}, "createWalletResult")
    tag = sim.submit("CREATE_USER_TAG", {"userTagName": "Signers", "userIds": []}, "createUserTagResult")["userTagId"]
    pair = json.load(open(sim.data + "/organizations.json"))[0]["rootApiKey"]  # of an organization that is made for its key alone
    user = sim.submit("CREATE_USERS_V3", {"users": [{"userName": "Signer", "apiKeys": [{"apiKeyName": "Key", "publicKey": pair["publicKey"], "curveType": "API_KEY_CURVE_P256"}],
                                                    "authenticators": [], "oauthProviders": [], "userTags": [tag]}]}, "createUsersResult")["userIds"][0]
    sim.submit("CREATE_POLICY_V3", {"policyName": "Policy 0", "effect": "EFFECT_ALLOW", "notes": "", "consensus": "approvers.any(user, user.id == '%s')" % user,
                                    "condition": "activity.kind == 'SIGN_RAW_PAYLOAD' && wallet.id == '%s'" % wallet["walletId"]}, "createPolicyResult")
    body = tmp + "/body.json"
    open(body, "w").write('{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"{{ms}}","organizationId":"%s","parameters":{"signWith":"%s","payload":"{{hex32}}",'
                          '"encoding":"PAYLOAD_ENCODING_HEXADECIMAL","hashFunction":"HASH_FUNCTION_NO_OP"},"generateAppProofs":true}' % (sim.cred["organizationId"], wallet["addresses"][0]))
    print("| policies | p50 us, 1 client | p99 us | p50 / root's | requests/s, 16 clients | of root's | CPU us, both processes | root: p50 us | p99 us | requests/s | enclave's memory |\n" + "|---" * 11 + "|")
    have = 2  # with the auth proxy's own
    for n in counts:
        while have < n:
            more = min(100, n - have)
            sim.submit("CREATE_POLICIES", {"policies": others(have, more, tag, user)}, "createPoliciesResult")
            have += more
        got = {}
        for _ in range(reps):
            for who, k in (("user", pair["privateKey"]), ("root", sim.cred["rootApiKey"]["privateKey"])):
                for clients in (1, 16):
                    got.setdefault((who, clients), []).append(load(body, k, clients))
        m = lambda who, clients, what: st.median(x[what] for x in got[who, clients])
        r = lambda clients, what: st.median(x[what] / y[what] for x, y in zip(got["user", clients], got["root", clients]))
        print("| %d | %.0f | %.0f | %.2f | %.0f | %.2f | %.0f | %.0f | %.0f | %.0f | %.0f MiB |" % (
            n, m("user", 1, "p50_us"), m("user", 1, "p99_us"), r(1, "p50_us"), m("user", 16, "per_sec"), r(16, "per_sec"), m("user", 16, "server_cpu_us_per_request"),
            m("root", 1, "p50_us"), m("root", 1, "p99_us"), m("root", 16, "per_sec"), sim.memory()), flush=True)
finally:
    sim.stop()
