// A client of the public interface beside the browser: prepares what a flow needs and looks at what came of it.
import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";

export class Client {
  constructor({ apiUrl, organizationId, publicKey, privateKey }) {
    Object.assign(this, { apiUrl, organizationId, publicKey });
    // Node finds x and y of a key by itself when it reads SEC 1.
    const sec1 = Buffer.concat([Buffer.from("30310201010420", "hex"), Buffer.from(privateKey, "hex"), Buffer.from("a00a06082a8648ce3d030107", "hex")]);
    this.key = createPrivateKey({ key: sec1, format: "der", type: "sec1" });
  }

  async send(path, content) {
    const body = JSON.stringify({ organizationId: this.organizationId, ...content });
    const stamp = { publicKey: this.publicKey, scheme: "SIGNATURE_SCHEME_TK_API_P256", signature: sign("sha256", Buffer.from(body), this.key).toString("hex") };
    const answer = await fetch(this.apiUrl + path, { method: "POST", body, headers: { "X-Stamp": Buffer.from(JSON.stringify(stamp)).toString("base64url") } });
    const got = await answer.json();
    return { status: answer.status, ...got };
  }

  async query(operation, content = {}) {
    const got = await this.send(`/public/v1/query/${operation}`, content);
    if (got.status !== 200) throw new Error(`${operation}: ${got.message}`);
    return got;
  }

  async submit(operation, type, parameters) {
    const got = await this.send(`/public/v1/submit/${operation}`, { type: `ACTIVITY_TYPE_${type}`, timestampMs: String(Date.now()), parameters });
    if (got.status !== 200) throw new Error(`${operation}: ${got.message}`);
    return got.activity;
  }
}

// newKey is a pair as the interface writes it.
export function newKey() {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { x, y, d } = { ...publicKey.export({ format: "jwk" }), ...privateKey.export({ format: "jwk" }) };
  const hex = (s) => Buffer.from(s, "base64url").toString("hex");
  return { publicKey: (parseInt(hex(y).slice(-1), 16) & 1 ? "03" : "02") + hex(x), privateKey: hex(d) };
}
