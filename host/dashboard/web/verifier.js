// The verifier in WebAssembly, for a page or a worker that may compile it.

// start loads the verifier and lets it run. It gives back the code that was loaded.
export async function start() {
  const answer = await fetch(new URL("verifier.wasm", import.meta.url));
  if (!answer.ok) throw new Error(`The server did not return the verifier (HTTP ${answer.status}).`);
  const code = await answer.arrayBuffer();
  await import("./wasm_exec.js");
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(code, go.importObject);
  go.run(instance); // it stays, for questions
  if (!globalThis.cloisterVerifyReady) throw new Error("The verifier did not start.");
  return code;
}
