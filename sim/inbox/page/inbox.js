// The page of the simulator's inbox. What a message says is only ever set as
// text; its HTML is shown by a frame that may do nothing.
const part = (id) => document.getElementById(id);
const every = 1500; // ms between looks

let messages = [];
let chosen = null; // id
let form = "html";
let drawn = ""; // what the list was drawn from

function element(tag, className, text) {
	const e = document.createElement(tag);
	e.className = className;
	e.textContent = text;
	return e;
}

function row(m) {
	const button = element("button", "", "");
	button.type = "button";
	button.dataset.id = m.id;
	const first = element("span", "line", "");
	const time = element("time", "", new Date(m.receivedAt).toLocaleTimeString());
	time.dateTime = m.receivedAt;
	first.append(element("span", "what", m.subject || m.text.split("\n")[0] || "(nothing)"), time);
	const second = element("span", "line", "");
	second.append(element("span", "who", (m.kind === "text" ? "Text message to " : "Mail to ") + m.to));
	button.append(first, second);
	button.addEventListener("click", () => choose(m.id));
	const item = document.createElement("li");
	item.append(button);
	return item;
}

function drawList() {
	const now = JSON.stringify(messages.map((m) => m.id));
	if (now !== drawn) {
		drawn = now;
		const focused = document.activeElement?.dataset?.id;
		part("list").replaceChildren(...messages.map(row));
		if (focused) part("list").querySelector(`[data-id="${focused}"]`)?.focus();
	}
	for (const b of part("list").querySelectorAll("button")) {
		b.setAttribute("aria-current", String(b.dataset.id === chosen));
	}
	part("empty").hidden = messages.length > 0;
	part("empty").textContent = part("filter").value ? "No messages to this address." : "No messages yet. They appear here by themselves.";
}

// marked puts text into an element with every occurrence of the code marked.
function marked(e, text, code) {
	e.replaceChildren();
	const pieces = code ? text.split(code) : [text];
	pieces.forEach((piece, i) => {
		if (i > 0) e.append(element("mark", "", code));
		e.append(piece);
	});
}

function drawMessage() {
	const m = messages.find((m) => m.id === chosen);
	const article = part("message");
	article.hidden = !m;
	if (!m || article.dataset.shown === m.id + form) return;
	article.dataset.shown = m.id + form;
	part("subject").textContent = m.kind === "text" ? "Text message" : m.subject || "(no subject)";
	part("from").textContent = m.from;
	part("to").textContent = m.to;
	part("received").textContent = new Date(m.receivedAt).toLocaleString();
	part("code").hidden = !m.code;
	part("code").querySelector("strong").textContent = m.code || "";
	const asHTML = m.html !== "" && (form === "html" || m.text === "");
	part("forms").hidden = m.html === "" || m.text === "";
	for (const b of part("forms").querySelectorAll("button")) {
		b.setAttribute("aria-pressed", String((b.dataset.form === "html") === asHTML));
	}
	part("text").hidden = asHTML;
	marked(part("text"), m.text, m.code);
	part("html").hidden = part("pictures").hidden = !asHTML;
	if (asHTML) part("html").src = `messages/${encodeURIComponent(m.id)}/html`;
}

function choose(id) {
	chosen = id;
	drawList();
	drawMessage();
}

async function look() {
	try {
		const to = part("filter").value.trim();
		const answer = await fetch("messages" + (to ? `?to=${encodeURIComponent(to)}` : ""));
		if (!answer.ok) throw new Error(`status ${answer.status}`);
		const had = messages[0]?.id;
		messages = (await answer.json()).messages;
		// Whoever watches the newest message sees the next one too.
		if (chosen === had || !messages.some((m) => m.id === chosen)) chosen = messages[0]?.id ?? null;
		part("trouble").hidden = true;
	} catch {
		part("trouble").textContent = "The simulator does not answer. Trying again.";
		part("trouble").hidden = false;
		return;
	}
	drawList();
	drawMessage();
}

async function keepLooking() {
	await look();
	setTimeout(keepLooking, every);
}

part("filter").addEventListener("input", look);
part("clear").addEventListener("click", async () => {
	await fetch("messages", { method: "DELETE" }).catch(() => {});
	await look();
});
part("code").querySelector("button").addEventListener("click", () => navigator.clipboard.writeText(part("code").querySelector("strong").textContent));
part("forms").addEventListener("click", (e) => {
	if (e.target.dataset.form) {
		form = e.target.dataset.form;
		drawMessage();
	}
});
keepLooking();
