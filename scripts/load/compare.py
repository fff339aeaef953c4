#!/usr/bin/env python3
"""Runs the yardstick and Cloister side by side and holds the ratios against the aims. Called by run.sh."""
import json, os, re, statistics as st, subprocess, sys, time

out = sys.argv[1]
os.chdir(out)
cred = json.load(open(os.environ["DATA"] + "/credentials.json"))
address = json.load(open("wallet.json"))["activity"]["result"]["createWalletResult"]["addresses"][0]
reps, seconds = int(os.environ["REPS"]), float(os.environ["SECONDS_EACH"])


def body(organization, sign_with):
    return ('{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"{{ms}}","organizationId":"%s","parameters":{"signWith":"%s",'
            '"payload":"{{hex32}}","encoding":"PAYLOAD_ENCODING_HEXADECIMAL","hashFunction":"HASH_FUNCTION_NO_OP"},"generateAppProofs":true}' % (organization, sign_with))


open("body-skeleton.json", "w").write(body("6a2c1a36-0b4c-4a8e-9f0a-3a5a3f0f6c11", "0x52908400098527886E0F7030069857D2E4169EE7"))
open("body-cloister.json", "w").write(body(cred["organizationId"], address))
for f in ("yard.sock", "skeleton.log"):
    if os.path.exists(f):
        os.remove(f)
skeleton = [subprocess.Popen(["taskset", "-c", "0"] + c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in []]
for c in (["./skeleton", "enclave", "-listen", "unix:yard.sock"],
          ["./skeleton", "host", "-http", "127.0.0.1:18091", "-enclave", "unix:yard.sock", "-durable", "log", "-dir", "."]):
    skeleton.append(subprocess.Popen(["taskset", "-c", "0"] + c, stdout=subprocess.DEVNULL))
    time.sleep(0.5)

path = "/public/v1/submit/sign_raw_payload"
systems = {
    "skeleton": ["-url", "http://127.0.0.1:18091" + path, "-body", "@body-skeleton.json", "-stamp", "yardstick", "-pids", ",".join(str(p.pid) for p in skeleton)],
    "cloister": ["-url", "http://%s%s" % (os.environ["API"], path), "-body", "@body-cloister.json", "-stamp", cred["rootApiKey"]["privateKey"], "-pids", os.environ["PIDS"]],
}


def run(name, clients, secs, rate=0.0, guess=4000):
    n = int((rate or guess) * (secs + 1.5)) + 2000
    cmd = ["taskset", "-c", "1", "./load", "-json", "-label", name, "-c", str(clients), "-d", "%gs" % secs, "-warm", "500ms", "-expect", "signRawPayloadResult",
           "-fresh", "-render", str(n)] + systems[name] + (["-rate", str(rate)] if rate else [])
    r = subprocess.run(cmd, capture_output=True, text=True, timeout=secs * 20 + 120)
    j = json.loads(r.stdout)
    if j["errors"]:
        print("%s: %d errors: %s" % (name, j["errors"], j.get("first_error")), file=sys.stderr)
    return j


try:
    got = {}
    for _ in range(reps):
        for c in (1, 16):
            for name in systems:
                got.setdefault((name, c), []).append(run(name, c, seconds))
    most = {n: st.median(x["per_sec"] for x in got[n, 16]) for n in systems}
    for _ in range(reps):
        for name in systems:
            got.setdefault((name, "open"), []).append(run(name, 64, max(seconds, 3), rate=most[name] / 2))
finally:
    for p in skeleton:
        p.terminate()


def med(name, c, k):
    return st.median(x[k] for x in got[name, c])


def ratio(c, k):
    rs = [x[k] / y[k] for x, y in zip(got["cloister", c], got["skeleton", c]) if y[k]]
    return st.median(rs), min(rs), max(rs)


print("\n| | skeleton | cloister | ratio (min..max) | must | aim | |\n|---|---|---|---|---|---|---|")
rows = [("CPU us a signature, 16 clients", 16, "server_cpu_us_per_request", 1.45, 1.25, False), ("requests/s, 16 clients", 16, "per_sec", 0.72, 0.80, True),
        ("p50 us, 1 client", 1, "p50_us", 1.35, 1.25, False), ("p99 us, open loop at half of own maximum", "open", "p99_us", 1.8, 1.5, False)]
for text, c, k, must, aim, more in rows:
    m, lo, hi = ratio(c, k)
    sign = ">=" if more else "<="
    met = [m >= x if more else m <= x for x in (must, aim)]
    print("| %s | %.0f | %.0f | %.2f (%.2f..%.2f) | %s %.2f | %s %.2f | %s |" % (text, med("skeleton", c, k), med("cloister", c, k), m, lo, hi, sign, must, sign, aim, "aim met" if met[1] else "met" if met[0] else "NOT met"))
first, last = (got["skeleton", 16][i]["server_cpu_us_per_request"] for i in (0, -1))
print("\nskeleton's own CPU moved by %.0f %% from the first to the last repetition; cloister's memory %.0f MiB" % (100 * abs(last - first) / first, med("cloister", 16, "server_rss_mib")))
errors = sum(x["errors"] for l in got.values() for x in l)
print("errors in all: %d" % errors)
json.dump([{"system": n, "clients": c, "runs": l} for (n, c), l in got.items()], open("out.json", "w"), indent=1)
sys.exit(1 if errors else 0)
