// The worker that runs the verifier: the page may not compile WebAssembly.

const script = new URL("./lint.js", import.meta.url).href;
const policy = window.trustedTypes?.createPolicy("advice", { createScriptURL: () => script }) ?? { createScriptURL: () => script };

// startWorker starts another one.
export const startWorker = () => new Worker(policy.createScriptURL(""), { type: "module" });

