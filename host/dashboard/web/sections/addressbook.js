// The address book: what the organization calls addresses, which approvers are shown. It is the value of a feature, and the enclave warns of
// addresses that look like one in it.

import { query, submit } from "../api.js";
import { h } from "../dom.js";
import { exportButton } from "../export.js";
import { limitedToRoot } from "../may.js";
import { sortable } from "../tables.js";
import { confirm, copyable, dialog, done, empty, field, loadOne, title } from "../ui.js";

const feature = "FEATURE_NAME_ADDRESS_BOOK";

// entriesOf are the names and addresses in the features of an organization.
export function entriesOf(features) {
  const value = features.find((f) => f.name === feature)?.value;
  return value ? JSON.parse(value) : [];
}

async function read() {
  const { configs } = await query("get_organization_configs");
  return { entries: entriesOf(configs.features), quorum: configs.quorum };
}

// same compares addresses as the enclave does: hex digits count in either case.
const same = (a, b) => (/^0x/i.test(a) ? a.toLowerCase() === b.toLowerCase() : a === b);

const fault = (name, text) => Object.assign(new Error(text), { fields: [{ field: name, description: text }] });

// change makes the book anew from what it is now, so that what others have changed meanwhile stays.
async function change(make, message, again) {
  const { entries } = await read();
  const next = make(entries).sort((a, b) => a.name.localeCompare(b.name));
  done(await submit("set_organization_feature", "SET_ORGANIZATION_FEATURE", { name: feature, value: JSON.stringify(next) }), message);
  again();
}

// add refuses what the enclave would refuse, beside the field at fault.
function add(entries, { name, address }) {
  if (entries.some((e) => e.name.toLowerCase() === name.toLowerCase())) throw fault("name", `There is an address with this name already: ${name}.`);
  const there = entries.find((e) => same(e.address, address));
  if (there) throw fault("address", `This address is in the address book already, as ${there.name}.`);
  return [...entries, { name, address }];
}

const nameField = (value) => field({ name: "name", label: "Name", required: true, maxlength: 64, value, placeholder: "Payroll" });
const addressField = (value) => field({ name: "address", label: "Address", required: true, maxlength: 128, value, class: "code", spellcheck: "false", autocapitalize: "off", pattern: "[0-9A-Za-z:_.+\\/=\\-]{8,128}", title: "An address of any chain, without spaces" });

function addOne(again, value = {}) {
  dialog({
    heading: "Add an address",
    intro: "Check the address with whoever owns it, by another way than the one that it came by: approvers will trust its name.",
    fields: [nameField(value.name), addressField(value.address)],
    action: "Add address",
    run: (all) => change((entries) => add(entries, all), `${all.name} was added.`, again),
  });
}

function edit(entry, again) {
  dialog({
    heading: `Edit ${entry.name}`,
    fields: [nameField(entry.name), addressField(entry.address)],
    action: "Save",
    run: (all) => change((entries) => add(entries.filter((e) => e.address !== entry.address), all), "Saved.", again),
  });
}

const remove = (entry, again) => confirm(`Remove ${entry.name}?`, "Approvers no longer see this name, and the address is shown as one that nobody knows.", "Remove",
  () => change((entries) => entries.filter((e) => e.address !== entry.address), `${entry.name} was removed.`, again));

// parse reads lines of a name and an address, which is the last word.
function parse(lines) {
  return lines.map((line, i) => {
    const [, name, address] = /^(.*?)[\s,;]+(\S+)$/.exec(line) ?? [];
    if (!name || !/^[0-9A-Za-z:_.+/=-]{8,128}$/.test(address)) throw fault("lines", `Line ${i + 1} is not a name, a comma and an address: ${line}`);
    return { name: name.replace(/^"(.*)"$/, "$1"), address };
  });
}

function addMany(again) {
  dialog({
    heading: "Add several addresses",
    fields: [field({ name: "lines", label: "Names and addresses", kind: "lines", class: "code", rows: 8, required: true, placeholder: "Payroll, 0x52908400098527886E0F7030069857D2E4169EE7", hint: "One per line: the name, a comma and the address. At most 150 in all." })],
    action: "Add addresses",
    run: ({ lines }) => {
      const all = parse(lines);
      return change((entries) => all.reduce((made, one) => {
        try {
          return add(made, one);
        } catch (error) {
          throw fault("lines", error.message);
        }
      }, entries), all.length === 1 ? "One address was added." : `${all.length} addresses were added.`, again);
    },
  });
}

const bookExport = () => exportButton({
  what: "addresses", id: (e) => e.address, intro: "The names and addresses of the address book.", pages: async function* () { yield (await read()).entries; },
  columns: [["name", (e) => e.name], ["address", (e) => e.address]],
});

function draw({ entries, quorum }, again) {
  const may = limitedToRoot(quorum, "Only the root quorum can change the address book.");
  const more = [may.button("Add an address", { class: "button primary", onclick: () => addOne(again) }), may.button("Add several", { onclick: () => addMany(again) }), entries.length > 0 && bookExport()];
  const small = (text, entry, act) => may.button(text, { class: "button small", "aria-label": `${text} ${entry.name}`, onclick: () => act(entry, again) });
  return [
    title("Address book", {
      actions: more,
      intro: "What approvers see beside an address, instead of “not in your address book”. The enclave also warns of an address that begins and ends like one in here. Sub-organizations have their own.",
    }),
    may.why,
    entries.length === 0 ? empty("There is no address in it yet.")
      : sortable("Address book", [
        { name: "Name", cell: (e) => h("span", { class: "strong wrap" }, e.name), key: (e) => e.name },
        { name: "Address", cell: (e) => copyable(e.address, `address of ${e.name}`, { whole: true }), key: (e) => e.address },
        { name: "", cell: (e) => h("div", { class: "row" }, small("Edit", e, edit), small("Remove", e, remove)) },
      ], entries).node,
  ];
}

export const addressBook = (main) => loadOne(main, "the address book", "Address book", null, read, draw);
