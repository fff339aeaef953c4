// Advice about policies and what an editor of them asks, answered in this browser by a worker: the page may not compile WebAssembly.

import { startWorker } from "./worker.js";

let worker; // one for the page's life, unless it dies
let waiting = []; // the promises of what it was asked, in order

function died() {
  worker.terminate();
  worker = undefined;
  const failed = waiting;
  waiting = [];
  for (const { reject } of failed) reject(new Error("The policy checks of this browser have stopped."));
}

function send(message) {
  if (!worker) {
    worker = startWorker();
    worker.onerror = died;
    worker.onmessage = ({ data: { answer, error, dead } }) => {
      const { resolve, reject } = waiting.shift();
      if (error === undefined) resolve(answer);
      else reject(new Error(error));
      if (dead) died();
    };
  }
  worker.postMessage(message);
  return new Promise((resolve, reject) => { waiting.push({ resolve, reject }); });
}

// ask puts a question of package editor. It rejects if this browser or server has no verifier, which holds the answers.
export const ask = (question) => send({ question });

// advice is what is likely wrong with policies, given what get_organization answers; nothing without a verifier.
export const advice = (organization) => send({ organization }).then(({ warnings }) => warnings ?? [], () => []);
