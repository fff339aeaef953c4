// A worker that says what is likely wrong with an organization's policies. It may compile the verifier, which holds the
// advice; the page that asks may not. Without a verifier there is no advice.

import { start } from "./verifier.js";

onmessage = async ({ data }) => {
  try {
    await start();
    postMessage(JSON.parse(globalThis.cloisterLint(JSON.stringify(data))).warnings ?? []);
  } catch {
    postMessage([]);
  }
};
