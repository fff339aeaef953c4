// The page that verifies proofs on the reader's own machine, by package attestation compiled to WebAssembly. Nobody signs in.

import { sentence } from "./api.js";
import { drawn } from "./decoded.js";
import { fill, h, icon } from "./dom.js";
import { toHex } from "./stamp.js";
import { themeButton, useTheme } from "./theme.js";
import { badge, button, copyable, facts, field, form, panel, problem, title, toast } from "./ui.js";
import { start } from "./verifier.js";

const app = document.getElementById("app");
const promised = app.dataset.verifier; // SHA-256 of the verifier that the host was built with, empty without one

// ask puts a question of package checks.
const ask = (question) => JSON.parse(globalThis.cloisterVerify(JSON.stringify(question)));

const command = "cloister-verify -release release.json -operators manifest.json \\\n    -boot-proof boot.json -reply reply.json";

function doubts(loaded) {
  return panel("Can you trust this page?", [
    h("p", null, "This page and its verifier come from the server that you may be checking. A dishonest server can serve a page that always says Verified. ",
      "To rule that out, run the same check with a release that you built or checked yourself:"),
    h("pre", null, h("code", null, command)),
    loaded && facts([["Verifier, SHA-256", copyable(loaded, "the verifier's SHA-256", { whole: true })]]),
    loaded && h("p", { class: "note" }, loaded === promised ? "Computed in this browser from the verifier that was loaded. " : "This is not the verifier that the host says it was built with. ",
      h("code", null, "make build"), " prints the same value for everybody who builds the same source."),
  ]);
}

function absent() {
  return h("div", { class: "state" }, h("p", { class: "strong" }, "This server was built without the verifier"),
    h("p", null, "Build the host with ", h("code", null, "make build"), ": ", h("code", null, "go build"), " alone leaves the verifier out. The command ", h("code", null, "cloister-verify"), " makes the same checks."));
}

// fromFile fills a form from a JSON file of at most so many bytes, once it is chosen. fillForm throws if it is another file, as wrong
// then says.
const fromFile = (most, wrong, fillForm) => async ({ target }) => {
  const file = target.files[0];
  if (!file) return;
  const error = document.getElementById(`${target.id}-error`);
  error.textContent = "";
  try {
    if (file.size > most) throw new Error();
    fillForm(target.closest("form").elements, JSON.parse(await file.text()));
  } catch {
    error.textContent = wrong;
  } finally {
    target.value = "";
  }
};

// A simulator's credentials file. The key in it is not used.
const fromSimulator = fromFile(1 << 20, "This is not a simulator's credentials file. It must be JSON with attestationRootPem, manifestSha256 and pcrs.",
  (all, { attestationRootPem, manifestSha256, earlierManifestsSha256: earlier = [], pcrs }) => {
    if (!attestationRootPem || !manifestSha256 || !pcrs) throw new Error();
    all.simulatorRoot.value = attestationRootPem;
    all.manifest.value = [manifestSha256, ...earlier].join(" ");
    all.expected.value = earlier.length > 0 ? "" : JSON.stringify(pcrs, null, 1); // a manifest names the measurements that it goes with
    all.manifest.dispatchEvent(new Event("input", { bubbles: true }));
  });

async function fetchBoot(event) {
  const input = event.target.closest("form").elements.boot;
  try {
    const answer = await fetch("/public/v1/discovery/keys", { cache: "no-store", credentials: "omit", redirect: "error" });
    if (!answer.ok) throw new Error();
    input.value = JSON.stringify(JSON.parse(await answer.text()), null, 1);
    toast("Fetched this server's keys document, which contains its boot proof.");
  } catch {
    toast("The server did not return its boot proof.");
  }
}

const area = (more) => field({ kind: "textarea", class: "code", autocapitalize: "off", rows: 5, ...more });

// What the proofs are compared with: without any of it they only show that some enclave made them.
function comparisons() {
  const far = h("p", { class: "note", role: "status" });
  const node = h("fieldset", { class: "comparisons" }, h("legend", null, "Compare with"),
    h("p", null, "Give the manifest, or measurements and operators together. Get them from whoever runs the deployment or from a release that you trust, never from this server."),
    field({ name: "manifest", label: "Expected manifest", optional: false, hint: "Says which program runs and whose deployment it is. SHA-256, 64 hex digits; several with spaces between them.", pattern: "[0-9a-f]{64}( [0-9a-f]{64})*", title: "64 digits of lower-case hex; several with spaces between them", autocapitalize: "off", spellcheck: "false" }),
    area({ name: "expected", label: "Expected measurements", optional: false, hint: "Say which program runs, and nothing about whose deployment it is. A release file, the output of nitro-cli, or {\"0\": …, \"1\": …, \"2\": …}." }),
    area({ name: "operators", label: "Expected operators", optional: false, rows: 3, hint: "Say whose deployment it is, and nothing about the program. The deployment's first manifest or the one before, or {\"threshold\": …, \"publicKeys\": […]}." }),
    far);
  const tell = () => {
    const given = (name) => node.querySelector(`[name=${name}]`).value.trim() !== "";
    fill(far, given("manifest") || given("expected") && given("operators") ? "This names a program and a deployment."
      : given("expected") ? "This names a program. Any deployment of it would pass."
        : given("operators") ? "This names a deployment. Any program that its operators have approved would pass."
          : "With nothing to compare, only this is proven: some enclave runs some program.");
  };
  node.addEventListener("input", tell);
  tell();
  return node;
}

function questions(place) {
  return form({
    fields: [
      h("div", { class: "withbutton" },
        area({ name: "boot", label: "Boot proof", required: true, hint: "JSON: the answer of get_boot_proof, or a server's keys document." }),
        button("Fetch from this server", { class: "button small", onclick: fetchBoot })),
      area({ name: "proofs", label: "App proofs", hint: "JSON: the answer to a request that asked for app proofs, or of list_app_proofs." }),
      area({ name: "log", label: "Log proof", rows: 3, hint: "JSON: the answer of get_log_proof. It proves that witnesses cosigned a log which contains this decision." }),
      area({ name: "body", label: "Your request", rows: 3, hint: "Its exact body. App proofs and log proof must then be about this request; without it, they may be about another." }),
      comparisons(),
      h("details", { class: "way" }, h("summary", null, "Simulator"), h("div", { class: "inner" },
        h("p", { class: "note" }, "Anybody on a simulator's machine can read its keys, and its attestation leads to a root certificate of its own. Its proofs are accepted only if you give that certificate here."),
        field({ name: "file", label: "Credentials file", kind: "file", accept: "application/json,.json", onchange: fromSimulator, hint: "The simulator's credentials.json. Its root certificate, manifest and measurements are read in this browser; it is sent nowhere." }),
        area({ name: "simulatorRoot", label: "Root certificate", hint: "PEM." }))),
    ],
    action: "Verify on this machine",
    run: async ({ boot, proofs, log, body, expected, operators, manifest, simulatorRoot }) => {
      const report = ask({ texts: [boot, proofs, log].filter((t) => t.trim()), expected: expected.trim(), operators: operators.trim(), manifest, simulatorRoot: simulatorRoot.trim(), body: body || null, nowMs: Date.now() });
      fill(place, outcome(report));
      place.querySelector("h2").focus();
    },
  });
}

// The decoder of package decode, which holds a view against the bytes that would be signed.
function decodes(place) {
  return form({
    fields: [
      field({ name: "saved", label: "File from an approval", kind: "file", accept: "application/json,.json", onchange: fromApproval, hint: "What “Save to check it elsewhere” saved. It fills the fields below, and is sent nowhere." }),
      area({ name: "activity", label: "Activity", required: true, hint: "JSON: the answer of get_activity. Its first vote has the body that was signed." }),
      area({ name: "records", label: "Accounts and interfaces", rows: 3, hint: "JSON: answers of list_wallet_accounts (with includeWalletDetails), list_wallets, list_private_keys, list_smart_contract_interfaces, get_user and get_organization_configs (for the address book), in a list. What is false in them changes the view, and so its digest." }),
      area({ name: "tokens", label: "Tokens", rows: 3, hint: "JSON: the operator's list of tokens, or the answer of list_known_tokens." }),
    ],
    action: "Decode on this machine",
    run: async ({ activity, records, tokens }) => {
      const all = listOf(records);
      const answer = JSON.parse(globalThis.cloisterDecode(JSON.stringify({ activity, records: all.map((r) => JSON.stringify(r)), tokens: tokens.trim() })));
      fill(place, decodedOutcome(answer));
      place.querySelector("h2").focus();
    },
  });
}

function listOf(text) {
  if (!text.trim()) return [];
  try {
    return [JSON.parse(text)].flat();
  } catch {
    throw new Error("The accounts and interfaces are not JSON.");
  }
}

// What an approval saves.
const fromApproval = fromFile(16 << 20, "This is not what an approval saves. It must be JSON with activity, records and tokens.", (all, { activity, records, tokens }) => {
  all.activity.value = JSON.stringify(JSON.parse(activity), null, 1);
  all.records.value = JSON.stringify(records.map((r) => JSON.parse(r)), null, 1);
  all.tokens.value = tokens;
});

function decodedOutcome({ error, document: shown, digest, shown: compared, differences = [] }) {
  const verdict = (tone, heading, ...content) => h("section", { class: `panel verdict ${tone}` }, h("h2", { tabindex: "-1" }, heading), content);
  if (error) return verdict("bad", "Refused", h("p", null, sentence(error)));
  return [
    differences.length > 0
      ? verdict("bad", "The activity is shown otherwise than its bytes say", h("p", null, "Or it was shown with other accounts, interfaces or tokens than those given here. It differs at:"),
        h("ul", null, differences.map((at) => h("li", null, h("code", { class: "wrap" }, at)))))
      : verdict(compared ? "good" : "wait", compared ? "The activity is shown as its bytes say" : "Decoded; there is nothing to compare",
        h("p", null, compared ? "An approval that names this digest counts only if the enclave decodes the same." : "The activity came without a view: it is over.")),
    panel("Made from the bytes", [facts([["Digest", copyable(digest, "digest", { whole: true })]]), drawn(shown)]),
  ];
}

const tones = { passed: ["Passed", "good"], refused: ["Refused", "bad"], skipped: ["Skipped", "neutral"] };

// verdictOf is how a report ends: a colour, a heading, and what it means.
function verdictOf({ verified, recovered, simulator, unpinned, reason }) {
  if (unpinned) return ["wait", "Genuine, but not compared", `Every proof that you gave is valid. ${unpinned}`];
  if (!verified) return ["bad", "Refused", sentence(reason)];
  if (recovered) return [simulator ? "simulator" : "wait", "Verified, in a log that was recovered from a backup", recovered];
  return [simulator ? "simulator" : "good", simulator ? "Verified: a simulator’s proof" : "Verified", "Every proof that you gave is valid and matches what you expect."];
}

function outcome(report) {
  const { simulator, unpinned, checks, facts: said, statements, entries = [] } = report;
  const [tone, heading, text] = verdictOf(report);
  const badgeOf = (how) => (unpinned && how === "refused" ? ["Not compared", "wait"] : tones[how]);
  const rows = (all) => facts(all.map(({ name, value }) => [name, value === "" ? "–" : value.length > 40 ? copyable(value, name, { whole: value.length < 140 }) : value]));
  return [
    h("section", { class: `panel verdict ${tone}` },
      h("h2", { tabindex: "-1" }, heading),
      h("p", null, text),
      simulator && h("p", { class: "row" }, badge("Simulator", "simulator"), h("span", null, "Whoever runs it can read its keys. Its proofs are for development.")),
      h("ol", { class: "checks" }, checks.map(({ name, outcome: how, words }) => h("li", null, badge(...badgeOf(how)), h("div", null, h("p", { class: "strong" }, name), h("p", { class: "note" }, sentence(words))))))),
    said.length > 0 && panel(simulator ? "What the simulator runs" : "What the enclave runs", rows(said)),
    statements.map((s, i) => panel(`App proof ${i + 1}`, rows(s))),
    entries.map((entry) => panel("Log proof", rows(entry))),
  ];
}

async function draw() {
  const main = h("main", { id: "main", class: "verify", tabindex: "-1" });
  // The dashboard opens this page in a tab of its own, where nobody is signed in unless the key is remembered.
  const ownTab = location.hash === "#tab";
  const away = ownTab ? h("p", { class: "note row" }, "You are still signed in, in the tab of the dashboard.", button("Close this tab", { class: "button small", onclick: () => { window.close(); toast("The browser leaves closing this tab to you."); } })) : null;
  fill(app, h("header", { class: "top" }, h(ownTab ? "span" : "a", { class: "brand", href: ownTab ? null : "./" }, h("span", { class: "mark", "aria-hidden": "true" }), h("span", null, "Cloister")), themeButton()), main);
  const head = title("Verify a proof", { back: ownTab ? null : { href: "./", text: "Dashboard" }, intro: "Check which program runs in the enclave, under which manifest, and what it signed. Everything is checked in this browser; what you paste here is sent nowhere." });
  if (away) head.prepend(away);
  if (!promised) {
    fill(main, head, absent(), doubts(""));
    return;
  }
  fill(main, head, h("div", { class: "state loading" }, h("p", { role: "status" }, "Loading the verifier…"), h("div", { class: "bones", "aria-hidden": "true" }, h("i"), h("i"))));
  try {
    const loaded = toHex(await crypto.subtle.digest("SHA-256", await start()));
    const result = h("div", { id: "result" });
    const view = h("div", { id: "view" });
    fill(main, head, h("section", { class: "panel" }, questions(result)), result,
      panel("What you are asked to approve", decodes(view), { note: "Makes what approvers are shown from the bytes that would be signed, and compares it with what the server showed." }), view, doubts(loaded));
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
