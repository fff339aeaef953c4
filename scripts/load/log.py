#!/usr/bin/env python3
"""Measures deployments with and without witnesses in turns and prints ratios within each turn. Called by log.sh."""
import json, statistics as st, subprocess, sys, urllib.request

work, reps, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
systems = {}
for line in open(work + "/deployments"):
    name, data, api = line.split()
    cred = json.load(open(data + "/credentials.json"))
    address = json.load(open(data + "/wallet.json"))["activity"]["result"]["createWalletResult"]["addresses"][0]
    with open(data + "/body.json", "w") as f:
        f.write('{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"{{ms}}","organizationId":"%s","parameters":{"signWith":"%s",'
                '"payload":"{{hex32}}","encoding":"PAYLOAD_ENCODING_HEXADECIMAL","hashFunction":"HASH_FUNCTION_NO_OP"},"generateAppProofs":true}' % (cred["organizationId"], address))
    pids = [l.split()[0] for l in open(data + "/pids") if l.split()[1] in ("enclave", "host")]
    systems[name] = {"api": api, "args": ["-url", "http://%s/public/v1/submit/sign_raw_payload" % api, "-body", "@%s/body.json" % data, "-stamp", cred["rootApiKey"]["privateKey"], "-pids", ",".join(pids)]}


def rounds(name):
    """Seconds that quorums took, and how many there were."""
    text = urllib.request.urlopen("http://%s/metrics" % systems[name]["api"]).read().decode()
    value = {l.split()[0]: float(l.split()[1]) for l in text.splitlines() if l.startswith("cloister_log_quorum_seconds_")}
    return value["cloister_log_quorum_seconds_sum"], value["cloister_log_quorum_seconds_count"]


def run(name, clients):
    before = rounds(name)
    n = int(4000 * (seconds + 1.5)) + 2000
    cmd = ["taskset", "-c", "1", work + "/generator", "-json", "-label", name, "-c", str(clients), "-d", "%gs" % seconds, "-warm", "500ms", "-expect", "signRawPayloadResult",
           "-fresh", "-render", str(n)] + systems[name]["args"]
    j = json.loads(subprocess.run(cmd, capture_output=True, text=True, timeout=seconds * 20 + 120).stdout)
    if j["errors"]:
        print("%s: %d errors: %s" % (name, j["errors"], j.get("first_error")), file=sys.stderr)
    took, count = (a - b for a, b in zip(rounds(name), before))
    j["round_ms"] = 1000 * took / count if count else 0
    return j


got = {}
for _ in range(reps):
    for clients in (1, 16, 64):
        for name in ("none", "bounded", "strict"):
            got.setdefault((name, clients), []).append(run(name, clients))
    for name in ("none", "strict", "distant"):
        got.setdefault((name, 256), []).append(run(name, 256))


def med(name, clients, key):
    return st.median(x[key] for x in got[name, clients])


def ratio(name, clients, key):
    rs = [x[key] / y[key] for x, y in zip(got[name, clients], got["none", clients])]
    return "%.2f (%.2f..%.2f)" % (st.median(rs), min(rs), max(rs))


cpu, per_sec, p50 = "server_cpu_us_per_request", "per_sec", "p50_us"
print("\n| | without | with | ratio (min..max) | must |\n|---|---|---|---|---|")
for text, name, clients, key, must in (
        ("bounded: p50 us, 1 client", "bounded", 1, p50, "<= 1.05"), ("bounded: CPU us, 16 clients", "bounded", 16, cpu, "<= 1.05"), ("bounded: CPU us, 64 clients", "bounded", 64, cpu, "<= 1.05"),
        ("strict: p50 us, 1 client", "strict", 1, p50, "<= without + 1.3 R + 500: %.0f" % (med("none", 1, p50) + 1300 * med("strict", 1, "round_ms") + 500)),
        ("strict: requests/s, 16 clients", "strict", 16, per_sec, ""), ("strict: requests/s, 64 clients", "strict", 64, per_sec, ">= 0.70"),
        ("strict: requests/s, 256 clients", "strict", 256, per_sec, ""), ("strict, 30 ms away: requests/s, 256 clients", "distant", 256, per_sec, ">= 0.80")):
    print("| %s | %.0f | %.0f | %s | %s |" % (text, med("none", clients, key), med(name, clients, key), ratio(name, clients, key), must))
print("\nR, the mean time to a quorum: " + ", ".join("%s %d clients %.1f ms" % (n, c, med(n, c, "round_ms")) for n, c in (("strict", 1), ("strict", 16), ("strict", 64), ("strict", 256), ("distant", 256))))
