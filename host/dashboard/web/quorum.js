// A quorum as a picture: a mark for each member, filled if the member has agreed, and in words how many must and how many more it takes.

import { h } from "./dom.js";

const most = 24; // marks in a picture

// mark is one member. A person is a head and shoulders, a program a box; who has rejected is crossed out.
function mark({ kind, voted }) {
  return h("svg", { class: `member ${voted ?? "open"}`, viewBox: "0 0 20 20", width: 20, height: 20 },
    kind === "program" ? h("rect", { x: 3, y: 4, width: 14, height: 12, rx: 2 }) : [h("circle", { cx: 10, cy: 6, r: 3.6 }), h("path", { d: "M3 18c.3-4.500 3-6.500 7-6.500s6.700 2 7 6.500z" })],
    voted === "rejected" && h("path", { class: "cross", d: "M2 2l16 16" }));
}

// quorumWords says what a quorum is and, if it is voting, how far it is.
export function quorumWords({ threshold, members, anybody, voting = members.some((m) => m.voted) }) {
  const needed = Number(threshold);
  const all = anybody ? `${needed} ${needed === 1 ? "user" : "users"} must agree` : members.length === 1 && needed === 1 ? "One member, who decides alone" : `${needed} of ${members.length} must agree`;
  if (!voting) return `${all}.`;
  const agreed = members.filter((m) => m.voted === "approved").length;
  const left = Math.max(0, needed - agreed);
  if (agreed === 0) return `${all}. Nobody has agreed yet.`;
  return `${all}. ${agreed} ${agreed === 1 ? "has" : "have"} agreed${left ? `: ${left} more needed` : ", which is enough"}.`;
}

// quorumPicture is drawn of a threshold and members, each with a name, a kind ("person" if left out, or "program") and what the member
// voted: "approved", "rejected" or nothing. anybody says that other users may be members too, voting says that a vote goes on, which the members' votes tell otherwise.
export function quorumPicture(quorum) {
  const text = quorumWords(quorum);
  const { members } = quorum;
  const order = ["approved", "rejected", undefined];
  const shown = [...members].sort((a, b) => order.indexOf(a.voted) - order.indexOf(b.voted)).slice(0, most);
  const names = (vote) => members.filter((m) => m.voted === vote).map((m) => m.name).join(", ");
  const open = !quorum.anybody && members.length <= most && names(undefined);
  const details = [names("approved") && `Agreed: ${names("approved")}.`, names("rejected") && `Rejected: ${names("rejected")}.`, open && `${members.some((m) => m.voted) ? "Not yet" : "Members"}: ${open}.`].filter(Boolean).join(" ");
  return h("span", { class: "quorum" },
    h("span", { class: "members", role: "img", title: details || null, "aria-label": [text, details].filter(Boolean).join(" ") }, shown.map(mark), members.length > most && h("span", { class: "note" }, `+${members.length - most}`)),
    h("span", { class: "note", "aria-hidden": "true" }, text));
}
