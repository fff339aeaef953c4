// A browser whose every complaint is a failure, pictures of what it shows, and what must hold of every page.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const screenshots = process.env.CLOISTER_SCREENSHOTS;
mkdirSync(screenshots, { recursive: true });

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"],
});

// open makes a page with a profile of its own. Complaints gathers what the browser says that it should not have to say;
// an answer that is no success is announced on the console too, and is the flows' to judge.
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: "reduce", locale: "en-GB", timezoneId: "Europe/Zurich", ...options });
  const complaints = [];
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`)));
  page.on("console", (m) => {
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource:") || m.type() === "warning") complaints.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => complaints.push(`error: ${e.stack}`));
  return { context, page, complaints };
}

// choose brings a credentials file along and waits until it is read.
export async function choose(at, file) {
  await at.setInputFiles("input[type=file]", file);
  const { rootApiKey, privateKey } = JSON.parse(readFileSync(file));
  await at.waitForFunction((key) => document.querySelector("[name=privateKey]").value === key, rootApiKey?.privateKey ?? privateKey);
}

// signIn signs in with the key in a credentials file, at the dashboard's address.
export async function signIn(at, base, file, { remember = true } = {}) {
  await at.goto(base);
  if (!(await at.getByLabel("Credentials file").isVisible())) await at.getByText("API key", { exact: true }).click();
  await choose(at, file);
  if (remember) await at.getByLabel("Remember the key").check();
  await at.getByRole("button", { name: "Sign in with the key", exact: true }).click();
}

// authenticator gives a page a security key that says yes. It gives back the session that can make it say no.
export async function authenticator(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  return { cdp, authenticatorId };
}

// sound looks for what must hold of any page: nothing sticks out, every control has a name, one heading of the first rank,
// no id twice, and text that can be read against what is behind it.
export async function sound(page, where) {
  const faults = await page.evaluate(() => {
    const found = [];
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    const widest = () => [...document.querySelectorAll("main *")].filter((n) => n.getBoundingClientRect().right > document.documentElement.clientWidth).at(-1)?.outerHTML.slice(0, 160);
    if (wide > 0) found.push(`sticks out by ${wide} px: ${widest()}`);
    const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && node.getClientRects().length > 0;
    const headings = [...document.querySelectorAll("h1")].filter(seen);
    if (headings.length !== 1) found.push(`${headings.length} first headings`);
    for (const node of document.querySelectorAll("button, a[href], input, select, textarea, summary")) {
      const labels = [...(node.labels ?? [])].map((l) => l.innerText).join("");
      if (seen(node) && !(node.getAttribute("aria-label") || labels || node.innerText?.trim() || node.title)) found.push(`no name: ${node.outerHTML.slice(0, 100)}`);
    }
    const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
    for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) found.push(`id twice: ${id}`);
    // Colours come as the browser mixed them: a canvas makes bytes of any of them.
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    const over = (back, colour) => {
      canvas.clearRect(0, 0, 1, 1);
      for (const c of [...back, colour]) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
      return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const dim = new Set();
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !seen(node) || node.closest(":disabled, [aria-disabled], .hidden, .skip, [hidden], noscript")) continue;
      const back = [];
      for (let n = node; n; n = n.parentElement) back.unshift(getComputedStyle(n).backgroundColor);
      const [a, b] = [light(over(back, getComputedStyle(node).color)), light(over(back.slice(0, -1), back.at(-1)))];
      const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
      if (contrast < 4.5) dim.add(`hard to read (${contrast.toFixed(2)}): ${node.tagName}.${node.className} ${walker.currentNode.data.trim().slice(0, 40)}`);
    }
    return [...found, ...dim];
  });
  assert.deepEqual(faults, [], where);
}

// accessible runs axe-core, which knows what readers of screens and keyboards need, over a page. It says what is serious or worse.
async function accessible(page, where) {
  if (!(await page.evaluate(() => Boolean(window.axe)))) await page.evaluate(axe);
  const { passes, violations } = await page.evaluate(async () => {
    const { passes, violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return { passes: passes.length, violations: violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.slice(0, 3).map((n) => n.html.slice(0, 160)) })) };
  });
  assert.deepEqual(violations.filter((v) => ["serious", "critical"].includes(v.impact)), [], `axe: ${where}`);
  assert.ok(passes > 10, `axe: ${where}: only ${passes} rules applied`);
}

const looks = [
  ["light", 1280, 860, "light"], ["dark", 1280, 860, "dark"], ["phone-light", 390, 844, "light"], ["phone-dark", 390, 844, "dark"],
];

// Widths at which a page is looked at without a picture: a tablet's, and the narrowest that browsers are asked to fit.
const widths = [[900, 700], [320, 640]];

// picture looks at a page in both themes, wide and as on a phone, and at other widths.
// Of a part only that part is kept: a frame below the fold is not painted.
export async function picture(page, name, part) {
  appendFileSync(join(screenshots, "pages.txt"), `${new URL(page.url()).hash || new URL(page.url()).pathname}\n`); // for pages.mjs
  for (const [look, width, height, colorScheme] of looks) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const path = join(screenshots, `${name}-${look}.png`);
    await (part ? part.screenshot({ path }) : page.screenshot({ path, fullPage: true }));
    await sound(page, `${name}, ${look}`);
    await accessible(page, `${name}, ${look}`);
  }
  for (const [width, height] of widths) {
    await page.setViewportSize({ width, height });
    await sound(page, `${name}, ${width} px`);
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
}
