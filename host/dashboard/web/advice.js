// Advice about policies, made in this browser.

const script = new URL("./lint.js", import.meta.url).href;
const policy = window.trustedTypes?.createPolicy("advice", { createScriptURL: () => script }) ?? { createScriptURL: () => script };

// advice is what is likely wrong with policies, given what get_organization answers.
export function advice(organization) {
  const worker = new Worker(policy.createScriptURL(""), { type: "module" });
  return new Promise((done) => {
    worker.onmessage = ({ data }) => done(data);
    worker.onerror = () => done([]);
    worker.postMessage(organization);
  }).finally(() => worker.terminate());
}
