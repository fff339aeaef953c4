// A worker that answers questions about policies, in their order. It may compile the verifier, which holds the answers; the page that
// asks may not.

import { start } from "./verifier.js";

let started;

onmessage = async ({ data: { question, organization } }) => {
  try {
    await (started ??= start());
  } catch (error) {
    started = undefined; // the next question tries again
    postMessage({ error: error.message });
    return;
  }
  try {
    postMessage({ answer: JSON.parse(question ? globalThis.cloisterPolicy(JSON.stringify(question)) : globalThis.cloisterLint(JSON.stringify(organization))) });
  } catch (error) { // the verifier has stopped
    postMessage({ error: error.message, dead: true });
  }
};
