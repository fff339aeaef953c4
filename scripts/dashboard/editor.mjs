// The field for expressions of policies: its colours, suggestions at the caret, problems where they are, all of it by keyboard, and what it
// does with a hostile text, a late answer and without the engine.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, picture, signIn as enter, sound } from "./browser.mjs";
import { base, credentials, root } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const limit = "1000000000000000000";
let browser, page, complaints, alice;

before(async () => {
  const user = async (userName) => ({ userName, apiKeys: [{ apiKeyName: "key", publicKey: (await makeOpenKey()).publicKey, curveType: "API_KEY_CURVE_P256" }], authenticators: [], oauthProviders: [], userTags: [] });
  const made = await root.submit("create_users", "CREATE_USERS_V3", { users: [await user("Alice"), await user("<b>Mallory</b>")] });
  [alice] = Object.values(made.result)[0].userIds;
  browser = await launch();
  ({ page, complaints } = await open(browser));
  await signIn(page);
});
after(() => browser?.close());

const calm = () => { assert.deepEqual(complaints, []); };

async function signIn(at) {
  await enter(at, base, process.env.CLOISTER_CREDENTIALS, { remember: false });
  await at.getByRole("link", { name: "Policies", exact: true }).waitFor();
}

// mount puts the fields of a policy into the page or into a dialog, and gives the modules to the page's evaluations.
async function mount({ condition = "", consensus = "", time = "", inDialog = false } = {}, at = page) {
  await at.evaluate(() => document.querySelector("dialog")?.close());
  await at.evaluate(async ({ given, inDialog }) => {
    const module = (name) => import(new URL(name, document.querySelector("script[type=module]").src));
    const [editor, ui, { fill, h }, { query }] = await Promise.all(["editor.js", "ui.js", "dom.js", "api.js"].map(module));
    const organization = async () => (await query("get_organization")).organizationData;
    const hints = { condition: "Which requests the policy applies to. Empty: all.", consensus: "Who must approve. Empty: only the user who sends the request.", time: "When the policy applies. Empty: always." };
    const fields = () => ["condition", "consensus", "time"].map((clause) => editor.expressionField({
      name: clause, label: clause[0].toUpperCase() + clause.slice(1), clause, value: given[clause], hint: hints[clause], organization, ...(clause === "time" && { rows: 2 }) }));
    const main = document.querySelector("main");
    fill(main, ui.title("New policy"));
    if (inDialog) ui.dialog({ heading: "Edit", fields: fields(), action: "Save", run: async () => {} });
    else main.append(ui.panel("Policy", ui.form({ fields: fields(), action: "Check", run: async () => {} })), ui.panel("For reading", h("pre", { id: "reading" })));
    window.pieces = { ...editor, values: ui.values, fill, form: document.querySelector(inDialog ? "dialog form" : "main form") };
  }, { given: { condition, consensus, time }, inDialog });
}

const field = (name, at = page) => at.locator(`textarea[name=${name}]`);
const value = (name, at = page) => field(name, at).inputValue();
const caret = (name, at = page) => field(name, at).evaluate((f) => [f.selectionStart, f.selectionEnd]);
const put = (name, text, at = page) => field(name, at).evaluate((f, text) => { f.focus(); f.value = text; f.setSelectionRange(text.length, text.length); }, text);
const putCaret = (name, place, at = page) => field(name, at).evaluate((f, place) => f.setSelectionRange(place, place), place);
const popup = (at = page) => at.getByRole("listbox");
const options = (at = page) => popup(at).getByRole("option");
const gone = (at = page) => popup(at).waitFor({ state: "hidden" });
const drawnPieces = (name, at = page) => field(name, at).evaluate((f) => [...f.parentElement.querySelectorAll("pre > span")].map((s) => [s.className, s.textContent]));
const focused = (at = page) => at.evaluate(() => document.activeElement.name || document.activeElement.textContent);

test("an expression is coloured, in the same lines as it is typed", async () => {
  const text = `approvers.any(user, user.id == 'b0') && !(eth.tx.value >= 12) || wallet.any in ['a', "b"] && true == contains && x.CronSpan == Timestamp('x`;
  await mount();
  await put("condition", text);
  const kinds = { string: [], number: [], keyword: [], function: [], operator: [], path: [] };
  const pieces = await drawnPieces("condition");
  for (const [kind, piece] of pieces) kinds[kind.replace("syntax-", "")].push(piece);
  assert.deepEqual(kinds, {
    string: ["'b0'", "'a'", "'x"], number: ["12"], keyword: ["in", "true"], function: ["any", "any", "Timestamp"],
    operator: ["(", ",", "==", ")", "&&", "!(", ">=", ")", "||", "[", ",", "]", "&&", "==", "&&", "==", "("], path: ["approvers", "user", "user", "id", "eth", "tx", "value", "wallet", "b", "contains", "x", "CronSpan"],
  });
  await picture(page, "editor-colours");

  // Whatever is typed: the same text, in lines of the same length, also once it is scrolled, resized or without room.
  const long = `${"wallet.label == 'treasury' && ".repeat(40)}eth.tx.to == '0x${"a".repeat(400)}'`;
  for (const given of ["", "\n", "a\n", "a \n\n  b ", text, long, `${long}\n`, " ".repeat(300), "\t\ta\tb", "ééé 🦊🦊 👩‍👩‍👧 'אבג' == 1 && 'ab\u0301'"]) {
    for (const width of [1280, 390, 320]) {
      await page.setViewportSize({ width, height: 860 });
      await put("condition", given);
      const [over, under] = await field("condition").evaluate(async (f) => {
        const view = f.parentElement.querySelector("pre");
        f.scrollTop = f.scrollHeight;
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const look = getComputedStyle;
        const measures = (n) => [n.scrollHeight, n.clientWidth, n.clientHeight, n.scrollTop, ...["fontFamily", "fontSize", "lineHeight", "letterSpacing", "tabSize", "whiteSpace", "overflowWrap", "wordBreak", "paddingLeft", "paddingTop", "fontVariantLigatures"].map((p) => look(n)[p])];
        return [[f.value, ...measures(f)], [view.textContent.replace(/\u200b$/, ""), ...measures(view)]];
      });
      assert.deepEqual(under, over, `${width} px: ${given.slice(0, 40)}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  await field("condition").evaluate(async (f) => {
    f.style.height = "300px";
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  });
  assert.deepEqual(await field("condition").evaluate((f) => [f.parentElement.querySelector("pre").clientHeight, f.clientHeight]), [298, 298]);
  // It grows with the text, up to a part of the window.
  const heights = [];
  for (const lines of [1, 3, 10, 200]) {
    await put("consensus", Array(lines).fill("true").join(" &&\n"));
    heights.push(await field("consensus").evaluate((f) => [f.clientHeight, f.scrollHeight > f.clientHeight]));
  }
  assert.deepEqual(heights.map(([, scrolls]) => scrolls), [false, false, false, true]);
  assert(heights[0][0] === heights[1][0] && heights[1][0] < heights[2][0] && heights[3][0] <= 0.6 * 860, JSON.stringify(heights));
  // The text in the textarea is not drawn a second time, and Hebrew stands where it stands there.
  assert.equal(await field("condition").evaluate((f) => getComputedStyle(f).color), "rgba(0, 0, 0, 0)");
  await put("condition", "'אב'");
  assert.equal(await field("condition").evaluate((f) => getComputedStyle(f.parentElement.querySelector("pre > span")).unicodeBidi), "normal");
  calm();
});

test("a field's value is in the form, and what a screen reader hears is in order", async () => {
  await mount({ condition: "true", time: "time.now == x" });
  assert.deepEqual(await page.evaluate(() => window.pieces.values(window.pieces.form)), { condition: "true", consensus: "", time: "time.now == x" });
  const input = page.getByRole("combobox", { name: /^Condition/ });
  assert.equal(await input.evaluate((f) => f.tagName + f.dataset.kind), "TEXTAREAtextarea");
  assert.deepEqual(await input.evaluate((f) => f.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id)?.textContent)), ["Which requests the policy applies to. Empty: all.", "", ""]);
  assert.deepEqual(await input.evaluate((f) => ["aria-expanded", "aria-autocomplete", "aria-activedescendant", "aria-invalid"].map((a) => f.getAttribute(a))), ["false", "list", null, null]);
  assert.equal(await field("condition").evaluate((f) => f.parentElement.querySelector("pre").getAttribute("aria-hidden")), "true");
  // The text that is seen is the text that is sent, whoever sets it.
  await field("condition").evaluate((f) => { f.value = "false"; });
  assert.deepEqual(await drawnPieces("condition"), [["syntax-keyword", "false"]]);
  calm();
});

test("a field of a transaction is completed by keyboard, and undone", async () => {
  await mount();
  await put("condition", "");
  await page.keyboard.type("eth.tx.v");
  await options().first().waitFor();
  const input = field("condition");
  await page.waitForFunction(() => document.querySelector("[role=option]")?.textContent.startsWith("value"));
  const relations = () => input.evaluate((f) => {
    const list = document.getElementById(f.getAttribute("aria-controls"));
    const selected = [...list.querySelectorAll("[aria-selected=true]")];
    return { expanded: f.getAttribute("aria-expanded"), role: list.role, label: list.getAttribute("aria-label"), only: [...list.children].every((o) => o.role === "option" && o.hasAttribute("aria-selected")), active: selected.length === 1 && selected[0].id === f.getAttribute("aria-activedescendant") };
  });
  assert.deepEqual(await relations(), { expanded: "true", role: "listbox", label: "Suggestions for Condition", only: true, active: true });
  assert.match(await options().first().innerText(), /value\s+int\s+.*wei/s);
  await picture(page, "editor-suggestions");
  await page.keyboard.press("Enter");
  assert.equal(await value("condition"), "eth.tx.value");
  assert.deepEqual(await caret("condition"), [12, 12]);
  await gone();
  assert.deepEqual(await input.evaluate((f) => [f.getAttribute("aria-expanded"), f.getAttribute("aria-activedescendant")]), ["false", null]);
  await page.keyboard.press("Control+z");
  assert.equal(await value("condition"), "eth.tx.v");
  assert.equal((await drawnPieces("condition")).map(([, t]) => t).join("."), "eth.tx.v");
  await page.keyboard.press("Control+y");
  assert.equal(await value("condition"), "eth.tx.value");

  // By arrows, around the ends, and by the mouse; Tab accepts as well.
  await put("condition", "");
  await page.keyboard.type("eth.");
  await page.waitForFunction(() => document.querySelector("[role=option] .name")?.textContent === "tx"); // until then the longer names that the letters before had
  const texts = await options().evaluateAll((all) => all.map((o) => o.querySelector(".name").textContent));
  const selected = () => popup().locator("[aria-selected=true] .name").innerText();
  assert.equal(await selected(), texts[0]);
  await page.keyboard.press("ArrowUp");
  assert.equal(await selected(), texts.at(-1));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await selected(), texts[1]);
  assert.equal((await relations()).active, true);
  await page.keyboard.press("Tab");
  assert.equal(await value("condition"), `eth.${texts[1]}`);
  assert.equal(await focused(), "condition");
  await put("condition", "eth.");
  await page.keyboard.press("Control+Space");
  await options().nth(texts.indexOf("tx")).click();
  assert.equal(await value("condition"), "eth.tx");
  assert.equal(await focused(), "condition");
  calm();
});

test("with the list closed, Tab, Enter, Escape and the arrows do what they always do", async () => {
  await mount({ condition: "true" });
  await put("condition", "true");
  await page.keyboard.press("Enter");
  assert.equal(await value("condition"), "true\n");
  await page.keyboard.press("ArrowUp");
  assert.deepEqual(await caret("condition"), [0, 0]);
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "consensus");
  await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), "condition");
  // The list closes when the caret or the focus leaves.
  for (const leave of [() => page.keyboard.press("ArrowLeft"), () => page.keyboard.press("Home"), () => field("condition").click(), () => field("time").focus(), () => page.keyboard.press("Shift+Tab"), () => page.keyboard.type(" ")]) {
    await put("condition", "");
    await page.keyboard.type("eth.t");
    await options().first().waitFor();
    await leave();
    await gone();
    assert.equal(await page.locator("[aria-expanded=true]").count(), 0);
  }
  calm();
});

test("a user is found by name, and the id is inserted", async () => {
  await mount();
  await put("consensus", "");
  await page.keyboard.type("approvers.any(user, user.id == ''");
  await page.keyboard.type(")");
  await putCaret("consensus", "approvers.any(user, user.id == '".length);
  await page.keyboard.press("Control+Space");
  await options().filter({ hasText: "Mallory" }).waitFor();
  assert.equal(await options().locator("b").count(), 0);
  await picture(page, "editor-users");
  await page.keyboard.type("Al");
  await page.waitForFunction(() => document.querySelector("[role=option] .name").textContent === "Alice");
  assert.match(await options().first().innerText(), new RegExp(`Alice\\s+${alice}`));
  await page.keyboard.press("Enter");
  assert.equal(await value("consensus"), `approvers.any(user, user.id == '${alice}')`);
  // A string that does not end yet is ended.
  await put("consensus", "");
  await page.keyboard.type("approvers.any(user, user.id == 'Ali");
  await options().filter({ hasText: "Alice" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await value("consensus"), `approvers.any(user, user.id == '${alice}'`);
  // An option that begins a string is followed by what can stand in it.
  await put("time", "");
  await page.keyboard.type("Cron");
  await options().filter({ hasText: "CronSpan" }).waitFor();
  await page.keyboard.press("Enter");
  await options().filter({ hasText: "0 9 * * 1-5" }).waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await value("time"), "CronSpan('0 9 * * 1-5'");
  calm();
});

test("in a dialog Escape closes the list alone, and the list is seen whole", async () => {
  await mount({ inDialog: true });
  for (const [width, height] of [[1280, 860], [390, 844], [320, 400]]) {
    await page.setViewportSize({ width, height });
    for (const name of ["condition", "consensus", "time"]) {
      await put(name, "");
      await page.keyboard.type({ condition: "eth.tx.", consensus: "approvers.", time: "time." }[name]);
      await options().first().waitFor();
      const seen = await popup().evaluate((list) => { // its options may be others in a moment
        const option = list.firstElementChild;
        const { left, right, top, bottom } = list.getBoundingClientRect();
        const box = option.getBoundingClientRect();
        return { inside: left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight, reached: option.contains(document.elementFromPoint(box.left + 20, box.top + 10)), high: bottom - top > 30 };
      });
      assert.deepEqual(seen, { inside: true, reached: true, high: true }, `${name}, ${width} × ${height}`);
      const apart = await field(name).evaluate((f) => {
        const list = f.parentElement.querySelector("[role=listbox]").getBoundingClientRect();
        const line = f.parentElement.querySelector("pre > span:last-of-type").getBoundingClientRect();
        return list.top >= line.bottom || list.bottom <= line.top;
      });
      assert(apart, `the list covers what is typed: ${name}, ${width} × ${height}`);
      await page.keyboard.press("Escape");
      await gone();
      assert.equal(await page.getByRole("dialog").count(), 1);
      assert.equal(await focused(), name);
    }
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.evaluate(() => {
    window.heard = [];
    document.addEventListener("keydown", ({ key }) => window.heard.push(key));
  });
  await put("condition", "");
  await page.keyboard.type("eth.t");
  await options().first().waitFor();
  await picture(page, "editor-dialog");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => window.heard.join("")), "eth.t");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  calm();
});

const show = (problems, warnings = [], options, at = page) => at.evaluate(([problems, warnings, options]) => window.pieces.showProblems(window.pieces.form, problems, warnings, options), [problems, warnings, options]);
const messages = (name, at = page) => field(name, at).evaluate((f) => f.getAttribute("aria-describedby").split(" ").slice(1).map((id) => document.getElementById(id).textContent));

test("problems and warnings are shown where they are, with the caret at the first", async () => {
  const condition = `activity.type == 'ACTIVITY_TYPE_SIGN_TRANSACTION_V2' &&\n  eth.tx.valu < ${limit}`;
  await mount({ condition, consensus: "approvers.all(user, true)", time: "time.now ==" });
  const from = condition.indexOf("eth.tx.valu");
  const problems = [
    { clause: "time", from: 11, to: 11, message: "unexpected end, want value" },
    { clause: "condition", from, to: from + 11, message: "Field does not exist: eth.tx.valu" },
  ];
  const warnings = [
    { clause: "condition", from: 0, code: "EXACT_ACTIVITY_TYPE", message: "The condition names one version of an activity." },
    { clause: "consensus", from: 0, code: "ALL_ON_EMPTY_LIST", message: "It is true for an empty list." },
    { clause: "", from: 0, code: "ALLOWS_EVERYTHING", message: "Concerns no clause." },
  ];
  await show(problems, warnings);
  assert.equal(await focused(), "condition");
  assert.deepEqual(await caret("condition"), [from, from]);
  assert.deepEqual(await Promise.all(["condition", "consensus", "time"].map((n) => messages(n))), [
    ["Field does not exist: eth.tx.valu", "Warning: The condition names one version of an activity."], ["", "Warning: It is true for an empty list."], ["Unexpected end, want value", ""]]);
  assert.deepEqual(await Promise.all(["condition", "consensus", "time"].map((n) => field(n).getAttribute("aria-invalid"))), ["true", null, "true"]);
  const underlined = async (name, kind) => (await drawnPieces(name)).filter(([c]) => c.split(" ").includes(kind)).map(([, t]) => t).join("");
  assert.deepEqual([await underlined("condition", "problem"), await underlined("condition", "caution"), await underlined("consensus", "caution"), await underlined("time", "problem")], ["eth.tx.valu", "activity.type", "approvers.all", "="]);
  const lines = await page.evaluate(() => ["problem", "caution"].map((c) => getComputedStyle(document.querySelector(`.${c}`)).textDecorationStyle));
  assert.deepEqual(lines, ["wavy", "dashed"]);
  await picture(page, "editor-problems");

  // What is changed is marked no longer; the other fields keep their marks until the next check.
  await page.keyboard.type("x");
  assert.deepEqual([await messages("condition"), await field("condition").getAttribute("aria-invalid"), await underlined("condition", "problem")], [["", ""], null, ""]);
  assert.deepEqual(await messages("time"), ["Unexpected end, want value", ""]);
  await page.keyboard.press("Escape");
  await field("consensus").focus();
  await show(problems.slice(0, 1), [], { focus: false });
  assert.equal(await focused(), "consensus");
  assert.deepEqual(await messages("consensus"), ["", ""]);
  await show([]);
  assert.deepEqual([await messages("time"), await field("time").getAttribute("aria-invalid"), await focused()], [["", ""], null, "consensus"]);

  // A problem far down is scrolled to; one behind the end of the text, as of an earlier text, hurts nothing.
  const far = `${"true &&\n".repeat(60)}wrong`;
  await put("condition", far);
  await field("condition").evaluate((f) => { f.scrollTop = 0; });
  await show([{ clause: "condition", from: far.length - 5, to: far.length, message: "there is no field wrong" }]);
  const seen = await field("condition").evaluate((f) => {
    const [mark, frame] = [f.parentElement.querySelector(".problem"), f].map((n) => n.getBoundingClientRect());
    return mark.top >= frame.top && mark.bottom <= frame.bottom;
  });
  assert(seen);
  await show([{ clause: "condition", from: 5000, to: 5003, message: "old" }, { clause: "consensus", from: 0, to: 0, message: "empty" }]);
  await put("consensus", "");
  await show([{ clause: "consensus", from: 0, to: 0, message: "empty" }]);
  assert.equal(await focused(), "consensus");
  calm();
});

test("a hostile text is shown as text, with its letters that cannot be seen written out", async () => {
  const piece = `'<img src=x onerror="document.title=1">' <script>document.title = 1</script> && 🦊👩‍👩‍👧 </pre></textarea><style>*{display:none}</style> \${x} `;
  const text = piece.repeat(Math.ceil(4096 / piece.length)).slice(0, 4095) + "'";
  await mount();
  const titled = await page.title();
  await put("condition", text);
  await page.evaluate((text) => { window.pieces.fill(document.getElementById("reading"), window.pieces.highlighted(text)); }, text);
  for (const place of [field("condition").locator("xpath=../pre"), page.locator("#reading")]) {
    assert.deepEqual(await place.evaluate((n) => [...new Set([...n.querySelectorAll("*")].map((x) => x.tagName))]), ["SPAN"]);
  }
  assert.equal(await field("condition").evaluate((f) => f.parentElement.querySelector("pre").textContent), `${text}\u200b`);
  assert.equal(await page.locator("#reading").textContent(), text.replaceAll("\u200d", "\\u{200D}"));
  assert.equal(await page.title(), titled);
  await sound(page, "hostile text");

  const turning = "user.id == 'a\u202eb\u200b\u00ad\u00a0\ufeff\u{e0041}c' && x == '\ud800'\r\n\tand 'Zürich' 'אב'";
  await page.evaluate((text) => { window.pieces.fill(document.getElementById("reading"), window.pieces.highlighted(text)); }, turning);
  assert.equal(await page.locator("#reading").textContent(), "user.id == 'a\\u{202E}b\\u{200B}\\u{AD}\\u{A0}\\u{FEFF}\\u{E0041}c' && x == '\\u{D800}'\r\n\tand 'Zürich' 'אב'");
  assert.equal(await page.locator("#reading .syntax-unseen").count(), 7);
  assert.equal(await page.locator("#reading .syntax-string").last().evaluate((n) => getComputedStyle(n).unicodeBidi), "isolate");
  await page.evaluate(() => { window.pieces.fill(document.getElementById("reading"), window.pieces.highlighted("")); });
  assert.equal(await page.locator("#reading").textContent(), "");
  await sound(page, "letters that cannot be seen");
  calm();
});

// standIn is a page whose engine is a function of the test: window.engine gives a promise for a question.
async function standIn() {
  const { context, page: at, complaints: said } = await open(browser);
  await at.route("**/advice.js", (route) => route.fulfill({ contentType: "text/javascript", body: "export const advice = async () => []; export const ask = (question) => window.engine(question);" }));
  await at.addInitScript(() => {
    window.asked = [];
    window.engine = (question) => (question.ask === "complete" ? new Promise((answer, fail) => window.asked.push({ question, answer, fail })) : Promise.resolve({}));
  });
  await signIn(at);
  await mount({}, at);
  return { at, said, close: () => context.close(), questions: () => at.evaluate(() => window.asked.map(({ question: { text, at: place, clause } }) => [clause, text, place])), wait: (n) => at.waitForFunction((n) => window.asked.length === n, n),
    answer: (i, from, to, ...texts) => at.evaluate(async ([i, from, to, texts]) => {
      window.asked[i].answer({ from, to, options: texts.map((text) => ({ text, label: text, kind: "field", detail: "", note: "" })) });
      await new Promise((done) => setTimeout(done));
    }, [i, from, to, texts]) };
}

test("an answer that comes late is dropped, and one question waits at a time", async () => {
  const { at, said, close, questions, wait, answer } = await standIn();
  await put("condition", "", at);
  await at.keyboard.type("e");
  await wait(1);
  await at.keyboard.type("th");
  assert.deepEqual(await questions(), [["condition", "e", 1]]);
  await answer(0, 0, 1, "else"); // to a text that is another now: dropped, and asked once for the newest
  await wait(2);
  assert.equal(await options(at).count(), 0);
  assert.deepEqual((await questions())[1], ["condition", "eth", 3]);
  await answer(1, 0, 3, "ethereum", "ethics", "ethos");
  assert.equal(await options(at).count(), 3);

  // While the next answer is under way only what goes on from the text is offered, and replaces all of it.
  await at.keyboard.type("i");
  await wait(3);
  assert.deepEqual(await options(at).allInnerTexts(), ["ethics"]);
  await at.keyboard.press("Enter");
  assert.equal(await value("condition", at), "ethics");
  await answer(2, 0, 4, "ethical");
  assert.equal(await options(at).count(), 0);

  // An option that the arrows chose stays the chosen one in the next answer.
  await put("condition", "", at);
  await at.keyboard.type("e");
  await wait(4);
  await answer(3, 0, 1, "ethereum", "ethics", "ethos");
  await at.keyboard.press("ArrowUp");
  await at.keyboard.type("t");
  await wait(5);
  const chosen = () => options(at).locator("xpath=self::*[@aria-selected='true']").allInnerTexts();
  assert.deepEqual(await chosen(), ["ethos"]);
  await answer(4, 0, 2, "ether", "ethos", "ethics");
  assert.deepEqual(await chosen(), ["ethos"]);
  await at.keyboard.press("Escape");

  // A list that was closed is not opened by an answer that was under way, and a key that belongs to an input method accepts nothing.
  await put("condition", "", at);
  await at.keyboard.type("e");
  await wait(6);
  await answer(5, 0, 1, "ethereum", "ethics");
  assert(await field("condition", at).evaluate((f) => f.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }))));
  assert.equal(await value("condition", at), "e");
  await at.keyboard.type("t");
  await wait(7);
  assert.equal(await options(at).count(), 2);
  await at.keyboard.press("Escape");
  await answer(6, 0, 2, "ethereum", "ethics");
  assert.equal(await options(at).count(), 0);

  // The text, the caret or the focus is elsewhere, or the list was closed: dropped.
  let n = 7;
  for (const leave of [
    () => at.keyboard.press("Backspace"), () => at.keyboard.press("ArrowLeft"), () => at.keyboard.press("Enter"), () => at.keyboard.press("Tab"), () => field("time", at).focus(), () => at.keyboard.insertText(" == 1"),
    () => field("condition", at).evaluate((f) => { f.value = "other"; }), () => field("condition", at).evaluate((f) => f.setSelectionRange(0, 7)), () => field("condition", at).evaluate((f) => f.setSelectionRange(7, 9)), () => at.evaluate(() => document.querySelector("main form").remove()),
  ]) {
    await put("condition", "wallet == 1", at);
    await putCaret("condition", 6, at);
    await at.keyboard.type(".");
    await wait(n + 1);
    await leave();
    await answer(n++, 7, 7, "id", "label");
    assert.equal(await options(at).count(), 0, String(leave));
    assert.equal((await questions()).length, n);
  }
  // Nothing is asked for a text that is pasted, taken back or deleted, or outside of names, dots and strings.
  await mount({}, at);
  await put("condition", "eth.tx", at);
  const press = async (keys) => { for (const key of keys) await at.keyboard.press(key); };
  await press(["Control+a", "Control+c", "End", "Control+v", "Control+z", "Backspace", "Delete", " ", "<", "1", "'"]);
  await wait(n + 1);
  assert.deepEqual((await questions()).at(-1), ["condition", "eth.t <1'", 9]);
  await answer(n, 9, 9);
  await press(["'", "(", "Shift+Enter", "e"]);
  await wait(n + 2);
  assert.deepEqual((await questions()).at(-1), ["condition", "eth.t <1''(\ne", 13]);
  assert.deepEqual(said, []);
  await close();
});

test("without an engine it is a plain field, and says nothing of it", async () => {
  const { at, said, close } = await standIn();
  await at.evaluate(() => { window.engine = () => Promise.reject(new Error("there is no engine")); });
  const attributes = () => field("condition", at).evaluate((f) => ["role", "aria-expanded", "aria-controls", "aria-autocomplete", "aria-activedescendant"].map((a) => f.getAttribute(a)));
  await put("condition", "", at);
  await at.keyboard.type("eth.tx.v");
  await at.waitForFunction(() => !document.querySelector("textarea[name=condition]").hasAttribute("role"));
  assert.deepEqual(await attributes(), [null, null, null, null, null]);
  assert.equal(await options(at).count(), 0);
  assert.deepEqual(await messages("condition", at), ["", ""]);
  assert.equal(await at.locator("[role=alert]:not(:empty), .toast").count(), 0);
  assert.deepEqual((await drawnPieces("condition", at)).map(([, t]) => t), ["eth", "tx", "v"]);
  await at.keyboard.press("Control+Space");
  await show([{ clause: "condition", from: 0, to: 3, message: "the server says so" }], [], undefined, at);
  assert.deepEqual(await messages("condition", at), ["The server says so", ""]);
  await picture(at, "editor-plain");
  // It comes back with the engine, at the next focus.
  await at.evaluate(() => { window.engine = async ({ ask }) => (ask === "complete" ? { from: 0, to: 1, options: [{ text: "eth", label: "eth", kind: "root" }] } : {}); });
  await field("time", at).focus();
  await put("condition", "", at);
  await at.waitForFunction(() => document.querySelector("textarea[name=condition]").getAttribute("role") === "combobox");
  await at.keyboard.type("e");
  await options(at).first().waitFor();
  // An engine that cannot answer, and one that ends meanwhile.
  await at.evaluate(() => { window.engine = async () => ({ error: "no such clause" }); });
  await at.keyboard.type("t");
  await gone(at);
  await at.evaluate(() => { window.engine = () => Promise.reject(new Error("the worker ended")); });
  await at.keyboard.type("h");
  await at.waitForFunction(() => !document.querySelector("textarea[name=condition]").hasAttribute("role"));
  assert.equal(await value("condition", at), "eth");
  assert.deepEqual(said, []);
  await close();
});

test("a hundred options, of hostile names, fit a phone", async () => {
  const { at, said, close } = await standIn();
  await at.setViewportSize({ width: 320, height: 400 });
  await at.evaluate(() => {
    window.engine = async ({ ask }) => (ask === "complete" ? { from: 14, to: 14, options: Array.from({ length: 100 }, (_, i) => ({ text: `id-${i}`, label: `<img src=x> ${"W".repeat(80)} \u202e ${i}`, kind: "value", detail: crypto.randomUUID(), note: "A note that is long enough for two lines of a small telephone, and then some." })) } : {});
  });
  await put("condition", "wallet.id == ", at);
  await at.keyboard.type("'");
  await options(at).nth(99).waitFor({ state: "attached" });
  assert.equal(await popup(at).locator("img").count(), 0);
  assert((await options(at).first().innerText()).includes("W \\u{202E} 0"));
  await at.keyboard.press("ArrowUp");
  const seen = await popup(at).evaluate((list) => {
    const [outer, last] = [list, list.lastElementChild].map((n) => n.getBoundingClientRect());
    return [outer.left >= 0, outer.right <= innerWidth, outer.top >= 0, outer.bottom <= innerHeight, last.top < outer.bottom, list.scrollWidth <= list.clientWidth];
  });
  assert.deepEqual(seen, [true, true, true, true, true, true]);
  await sound(at, "a hundred options");
  // Wherever the field stands, the list is over or under the line, and high enough.
  for (const block of ["end", "center", "start"]) {
    const place = await field("condition", at).evaluate(async (f, block) => {
      f.scrollIntoView({ block });
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const [list, line] = [f.parentElement.querySelector("[role=listbox]"), f.parentElement.querySelector("pre > span:last-of-type")].map((n) => n.getBoundingClientRect());
      return { inside: list.top >= 0 && list.bottom <= innerHeight, apart: list.top >= line.bottom || list.bottom <= line.top, high: list.height > 150 };
    }, block);
    assert.deepEqual(place, { inside: true, apart: true, high: true }, block);
  }
  // The list stays at its place in the text when the page is scrolled, and keeps what it shows.
  const gap = () => at.evaluate(() => {
    const [list, line] = ["[role=listbox]:popover-open", "pre > span:last-of-type"].map((s) => document.querySelector(s).getBoundingClientRect());
    return Math.min(Math.abs(list.top - line.bottom), Math.abs(line.top - list.bottom)) < 12;
  });
  assert(await gap());
  const last = () => popup(at).evaluate((list) => list.lastElementChild.getBoundingClientRect().bottom - list.getBoundingClientRect().bottom);
  const scrolled = await last();
  await at.evaluate(async () => {
    const before = scrollY;
    scrollBy(0, -20);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return before - scrollY;
  }).then((by) => assert.equal(by, 20));
  assert(await gap());
  assert.equal(await last(), scrolled);
  await at.keyboard.press("Enter");
  assert.equal(await value("condition", at), "wallet.id == 'id-99'");
  assert.deepEqual(said, []);
  await close();
});
