// The verifier for JavaScript: the checks of Go's package attestation, compiled to WebAssembly. Node 20 and browsers; no network.
//
//     go run ./scripts/wasm ./verifier            # once, in Cloister's source: verifier.wasm.gz and wasm_exec.js
//
//     import { loadVerifier } from "./verify.mjs";
//     const verify = await loadVerifier(new URL("./verifier/", import.meta.url));
//     const report = verify({ texts: [reply, bootProof], expected: release, operators: manifest, body, nowMs: Date.now() });
//     if (!report.verified) throw new Error(report.reason);

// loadVerifier starts the verifier that lies in a folder: a file: URL in Node, an address in a browser. The function that it gives
// takes a question and returns the report, both as package checks describes them (Question, Report). It throws if a member of the
// question is undefined: JSON would leave it out, and the proof would be bound to nothing by it. Its member decode makes what approvers
// of an activity are shown: it takes and returns what package decode describes (Question, Answer), and throws if there is no answer.
export async function loadVerifier(folder) {
  const base = new URL(folder);
  const packed = await read(new URL("verifier.wasm.gz", base));
  await import(new URL("wasm_exec.js", base));
  const code = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(code, go.importObject);
  go.run(instance); // it stays, for questions
  if (!globalThis.cloisterVerifyReady) throw new Error("the verifier did not start");
  const verify = (question) => {
    for (const [name, value] of Object.entries(question)) if (value === undefined) throw new TypeError(`${name} is undefined, and would bind nothing`);
    return JSON.parse(globalThis.cloisterVerify(JSON.stringify(question)));
  };
  verify.decode = (question) => {
    const answer = JSON.parse(globalThis.cloisterDecode(JSON.stringify(question)));
    if (answer.error) throw new Error(answer.error);
    return answer;
  };
  return verify;
}

async function read(url) {
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: status ${answer.status}`);
  return answer.arrayBuffer();
}
