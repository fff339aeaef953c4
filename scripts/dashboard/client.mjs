// A client of the public interface beside the browser: prepares what a flow needs and looks at what came of it. It stamps
// as the dashboard does; test.sh puts that module beside this one.
import { importKey, stampWithKey } from "./stamp.mjs";

export class Client {
  constructor({ apiUrl, organizationId, publicKey, privateKey }) {
    Object.assign(this, { apiUrl, organizationId, publicKey, key: importKey(publicKey, privateKey) });
  }

  async send(path, content) {
    const body = JSON.stringify({ organizationId: this.organizationId, ...content });
    const answer = await fetch(this.apiUrl + path, { method: "POST", body, headers: await stampWithKey(await this.key, this.publicKey, body) });
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
