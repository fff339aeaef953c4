// A worker that answers questions about policies, and those of imports and exports, in their order. It may compile the verifier, which
// holds the answers; the page that asks may not.

import { start } from "./verifier.js";

let started;

const answerTo = ({ bundle, question, organization }) =>
  bundle ? globalThis.cloisterBundle(JSON.stringify(bundle)) : question ? globalThis.cloisterPolicy(JSON.stringify(question)) : globalThis.cloisterLint(JSON.stringify(organization));

onmessage = async ({ data }) => {
  try {
    await (started ??= start());
  } catch (error) {
    started = undefined; // the next question tries again
    postMessage({ error: error.message });
    return;
  }
  try {
    postMessage({ answer: JSON.parse(answerTo(data)) });
  } catch (error) { // the verifier has stopped
    postMessage({ error: error.message, dead: true });
  }
};
