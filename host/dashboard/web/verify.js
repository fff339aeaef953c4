// The page that verifies proofs on the reader's own machine, by package attestation compiled to WebAssembly. Nobody signs in.

import { fill, h, icon } from "./dom.js";
import { themeButton, useTheme } from "./theme.js";
import { badge, button, copyable, facts, field, form, panel, problem, title, toast } from "./ui.js";
import { start } from "./verifier.js";

const app = document.getElementById("app");
const promised = app.dataset.verifier; // SHA-256 of the verifier that the host was built with, empty without one

const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, "0")).join("");

// ask puts a question of package checks.
const ask = (question) => JSON.parse(globalThis.cloisterVerify(JSON.stringify(question)));

const command = "cloister-verify -release release.json -operators manifest.json \\\n    -boot-proof boot.json -reply reply.json";

function doubts(loaded) {
  return panel("Who checks the checker?", [
    h("p", null, "This page, and the verifier in it, come from the server that you may be checking. A server that lies can serve a page that says yes. ",
      "Where that matters, run the same check from a release that you have built or checked yourself:"),
    h("pre", null, h("code", null, command)),
    loaded && facts([["Verifier, SHA-256", copyable(loaded, "the verifier's SHA-256", { whole: true })]]),
    loaded && h("p", { class: "note" }, loaded === promised ? "Computed in this browser over what was loaded. " : "This is not the one that the host says it was built with. ",
      h("code", null, "make build"), " prints it, the same for everybody who builds the same source."),
  ]);
}

function absent() {
  return h("div", { class: "state" }, h("p", { class: "strong" }, "This server was built without the verifier"),
    h("p", null, h("code", null, "make build"), " puts it in; ", h("code", null, "go build"), " alone does not. Everything that it would check, ", h("code", null, "cloister-verify"), " checks as well."));
}

// fromSimulator takes from a credentials file what a verifier wants of it. The key in it is not looked at.
async function fromSimulator(event) {
  const file = event.target.files[0];
  if (!file) return;
  const error = document.getElementById(`${event.target.id}-error`);
  const all = event.target.closest("form").elements;
  error.textContent = "";
  try {
    if (file.size > 1 << 20) throw new Error();
    const { attestationRootPem, manifestSha256, earlierManifestsSha256: earlier = [], pcrs } = JSON.parse(await file.text());
    if (!attestationRootPem || !manifestSha256 || !pcrs) throw new Error();
    all.simulatorRoot.value = attestationRootPem;
    all.manifest.value = [manifestSha256, ...earlier].join(" ");
    all.expected.value = earlier.length > 0 ? "" : JSON.stringify(pcrs, null, 1); // a manifest names the measurements that it goes with
  } catch {
    error.textContent = "This is no credentials file of a simulator: JSON with attestationRootPem, manifestSha256 and pcrs.";
  } finally {
    event.target.value = "";
  }
}

async function fetchBoot(event) {
  const input = event.target.closest("form").elements.boot;
  try {
    const answer = await fetch("/public/v1/discovery/keys", { cache: "no-store", credentials: "omit", redirect: "error" });
    if (!answer.ok) throw new Error();
    input.value = JSON.stringify(JSON.parse(await answer.text()), null, 1);
    toast("Fetched the keys document of this server, which holds its boot proof.");
  } catch {
    toast("The server did not give its boot proof.");
  }
}

const area = (more) => field({ kind: "textarea", class: "code", autocapitalize: "off", rows: 5, ...more });

function questions(place) {
  return form({
    fields: [
      h("div", { class: "withbutton" },
        area({ name: "boot", label: "Boot proof", required: true, hint: "What get_boot_proof or the keys document of a server answers, in JSON." }),
        button("Fetch from this server", { class: "button small", onclick: fetchBoot })),
      area({ name: "proofs", label: "App proofs", hint: "The reply of a request that asked for proofs, or what list_app_proofs answers." }),
      area({ name: "log", label: "Log proof", rows: 3, hint: "What get_log_proof answers: that witnesses have cosigned a log with this decision in it." }),
      area({ name: "body", label: "Your request", rows: 3, hint: "Its exact body. App proofs and log proof must then be about it: a true proof may be about something else." }),
      area({ name: "expected", label: "Expected measurements", hint: "A release file, what nitro-cli prints, or {\"0\": …, \"1\": …, \"2\": …}. Take them from a release that you trust, never from this server." }),
      area({ name: "operators", label: "Expected operators", rows: 3, hint: "The deployment's first manifest or the one before, or {\"threshold\": …, \"publicKeys\": […]}, from whoever runs it, never from this server. Measurements alone fit anybody's deployment of the same image." }),
      field({ name: "manifest", label: "Expected manifest", hint: "Its SHA-256, 64 digits, likewise; of several with blanks between them. It pins image and deployment.", pattern: "[0-9a-f]{64}( [0-9a-f]{64})*", title: "64 digits of lower-case hex, or several times as many", autocapitalize: "off", spellcheck: "false" }),
      h("details", { class: "way" }, h("summary", null, "Simulator"), h("div", { class: "inner" },
        h("p", { class: "note" }, "A simulator keeps no secret from its machine and leads to a root of its own. It is believed only if you name that here."),
        field({ name: "file", label: "Credentials file", kind: "file", accept: "application/json,.json", onchange: fromSimulator, hint: "credentials.json of the simulator. Its root, manifest and measurements are read here; it is sent nowhere." }),
        area({ name: "simulatorRoot", label: "Root certificate", hint: "In PEM." }))),
    ],
    action: "Verify on this machine",
    run: async ({ boot, proofs, log, body, expected, operators, manifest, simulatorRoot }) => {
      const report = ask({ texts: [boot, proofs, log].filter((t) => t.trim()), expected: expected.trim(), operators: operators.trim(), manifest, simulatorRoot: simulatorRoot.trim(), body: body || null, nowMs: Date.now() });
      fill(place, outcome(report));
      place.querySelector("h2").focus();
    },
  });
}

const tones = { passed: ["Holds", "good"], refused: ["Refused", "bad"], skipped: ["Not asked", "neutral"] };

function outcome({ verified, recovered, reason, checks, facts: said, statements, entries = [] }) {
  const rows = (all) => facts(all.map(({ name, value }) => [name, value === "" ? "–" : value.length > 40 ? copyable(value, name, { whole: value.length < 140 }) : value]));
  return [
    h("section", { class: `panel verdict ${!verified ? "bad" : recovered ? "wait" : "good"}` },
      h("h2", { tabindex: "-1" }, !verified ? "Refused" : recovered ? "Holds, in a log that was recovered" : "Verified"),
      h("p", null, verified ? recovered || "Everything that you gave holds under what you expect." : reason),
      h("ol", { class: "checks" }, checks.map(({ name, outcome: how, words }) => h("li", null, badge(...tones[how]), h("div", null, h("p", { class: "strong" }, name), h("p", { class: "note" }, words)))))),
    said.length > 0 && panel("What runs there", rows(said)),
    statements.map((s, i) => panel(`App proof ${i + 1}`, rows(s))),
    entries.map((entry) => panel("Log proof", rows(entry))),
  ];
}

async function draw() {
  const main = h("main", { id: "main", class: "verify", tabindex: "-1" });
  fill(app, h("header", { class: "top" }, h("a", { class: "brand", href: "./" }, h("span", { class: "mark", "aria-hidden": "true" }), h("span", null, "Cloister")), themeButton()), main);
  const head = title("Verify a proof", { back: { href: "./", text: "Dashboard" }, intro: "Which program runs in the enclave, under which manifest, and what it signed. All of it is checked in this browser; what you paste here is sent nowhere." });
  if (!promised) {
    fill(main, head, absent(), doubts(""));
    return;
  }
  fill(main, head, h("div", { class: "state loading" }, h("p", { role: "status" }, "Loading the verifier…"), h("div", { class: "bones", "aria-hidden": "true" }, h("i"), h("i"))));
  try {
    const loaded = hex(await crypto.subtle.digest("SHA-256", await start()));
    const result = h("div", { id: "result" });
    fill(main, head, h("section", { class: "panel" }, questions(result)), result, doubts(loaded));
  } catch (error) {
    fill(main, head, problem(error, draw), doubts(""));
  }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
});

useTheme();
draw();
