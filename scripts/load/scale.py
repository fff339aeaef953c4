#!/usr/bin/env python3
"""What grows with use: memory for hot organizations, latency with many organizations and with a long history, and the time
from start to the first signature. Called by scale.sh with bin/, the load generator and an output folder made ready."""
import json, os, re, statistics as st, subprocess, sys, tempfile, time

out, orgs, history = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
root = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
WALLET = {"walletName": "Load", "accounts": [{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}]}
PATH = "/public/v1/submit/sign_raw_payload"


class Sim:
    def __init__(self, data, port, organizations=0):
        self.data, self.port = data, port
        self.cmd = ["taskset", "-c", "0", root + "/bin/cloister-sim", "-data-dir", data, "-api-addr", "127.0.0.1:%d" % port, "-auth-proxy-addr",
                    "127.0.0.1:%d" % (port + 1), "-log", "none", "-log-level", "warn", "-organizations", str(organizations)]

    def start(self):
        self.began = time.time()
        self.log = open(os.path.join(out, "sim-%d.log" % self.port), "w")
        self.p = subprocess.Popen(self.cmd, stdout=self.log, stderr=self.log)
        while "Cloister is running" not in open(self.log.name).read():
            if self.p.poll() is not None:
                raise SystemExit("the simulator ended: " + open(self.log.name).read()[-2000:])
            time.sleep(0.005)
        self.cred = json.load(open(self.data + "/credentials.json"))
        self.pids = ",".join(l.split()[0] for l in open(self.data + "/pids") if l.split()[1] in ("enclave", "host"))
        return self

    def stop(self):
        self.p.terminate()
        self.p.wait()

    def request(self, typ, path, parameters, organization=None, key=None):
        cmd = [root + "/bin/cloister-host", "request", "-credentials", self.data + "/credentials.json", "-submit", typ]
        if key:
            f = self.data + "/key"
            open(f, "w").write(key)
            cmd += ["-organization", organization, "-key-file", f]
        r = subprocess.run(cmd + [path, json.dumps(parameters)], capture_output=True, text=True)
        if r.returncode:
            raise SystemExit("request: " + r.stdout + r.stderr)
        return json.loads(r.stdout)

    def wallet(self, **who):
        return self.request("ACTIVITY_TYPE_CREATE_WALLET", "/public/v1/submit/create_wallet", WALLET, **who)["activity"]["result"]["createWalletResult"]["addresses"][0]

    def body(self, address, proofs=True):
        name = os.path.join(out, "body-%d.json" % self.port)
        open(name, "w").write('{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"{{ms}}","organizationId":"%s","parameters":{"signWith":"%s","payload":"{{hex32}}",'
                              '"encoding":"PAYLOAD_ENCODING_HEXADECIMAL","hashFunction":"HASH_FUNCTION_NO_OP"},"generateAppProofs":%s}' % (self.cred["organizationId"], address, str(proofs).lower()))
        return ["-url", "http://127.0.0.1:%d%s" % (self.port, PATH), "-body", "@" + name, "-stamp", self.cred["rootApiKey"]["privateKey"], "-pids", self.pids,
                "-expect", "signRawPayloadResult", "-fresh"]

    def rss(self):
        return sum(int(re.search(r"VmRSS:\s+(\d+)", open("/proc/%s/status" % p).read())[1]) for p in self.pids.split(",")) / 1024


def load(args, clients, secs, n, warm="300ms"):
    r = subprocess.run(["taskset", "-c", "1", os.path.join(out, "load"), "-json", "-c", str(clients), "-d", "%gs" % secs, "-warm", warm, "-render", str(n)] + args,
                       capture_output=True, text=True)
    j = json.loads(r.stdout)
    if j["errors"]:
        print("errors: %d %s" % (j["errors"], j.get("first_error")), file=sys.stderr)
    return j


def compare(text, a, b, reps=9):
    rows = {0: [], 1: []}
    for _ in range(reps):
        for i, args in enumerate((a, b)):
            rows[i].append(load(args, 1, 1, 6000)["p50_us"])
    ma, mb = st.median(rows[0]), st.median(rows[1])
    print("| %s | %.0f us | %.0f us | %.2f | within 10 %% | %s |" % (text, ma, mb, mb / ma, "met" if mb <= 1.1 * ma else "NOT met"), flush=True)


def first_signature(sim, address):
    """Seconds from starting the processes to a signature on the caller's side."""
    sim.stop()
    sim.start()
    load(sim.body(address), 1, 0.01, 64, "0s")
    return time.time() - sim.began


def fill(sim, address, count):
    """Makes that many activities."""
    done = 0
    while done < count:
        # Short runs with more rendered than they can send, so that none idles.
        done += load(sim.body(address, False), 64, 8, 60_000, "0s")["requests"]


with tempfile.TemporaryDirectory() as tmp:
    print("| | before | after | ratio | aim | |\n|---|---|---|---|---|---|")
    a = Sim(tmp + "/a", 18500).start()
    address = a.wallet()
    times = [first_signature(a, address) for _ in range(5)]
    print("| process start to first signature | | %.2f s | | <= 0.50 s | %s |" % (st.median(times), "met" if st.median(times) <= 0.5 else "NOT met"), flush=True)

    b = Sim(tmp + "/b", 18510, orgs).start()
    compare("p50 at one client, 1 organization and %d" % (orgs + 1), a.body(address), b.body(b.wallet()))
    b.stop()

    h = Sim(tmp + "/h", 18520).start()
    time.sleep(3)
    idle = h.rss()
    h.stop()
    h = Sim(tmp + "/h2", 18530, 1000).start()
    for o in json.load(open(h.data + "/organizations.json")):
        h.wallet(organization=o["organizationId"], key=o["rootApiKey"]["privateKey"])
    hot = h.rss()
    print("| memory of both processes: idle and empty, 1,000 hot organizations with a wallet each | %.0f MiB | %.0f MiB | +%.0f MiB | <= +64 MiB | %s |" %
          (idle, hot, hot - idle, "met" if hot - idle <= 64 else "NOT met"), flush=True)
    h.stop()

    c = Sim(tmp + "/c", 18540).start()
    long = c.wallet()
    fill(c, long, history)
    compare("p50 at one client, history of a few thousand activities and of %d" % history, a.body(address), c.body(long))
    size = sum(os.path.getsize(os.path.join(c.data, f)) for f in os.listdir(c.data) if f.startswith("cloister.db")) / 2**30
    print("\nhistory of %d: database %.1f GiB, memory of both %.0f MiB, start to first signature %.2f s" % (history, size, c.rss(), first_signature(c, long)))
    c.stop()
    a.stop()
