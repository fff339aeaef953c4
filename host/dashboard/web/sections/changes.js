// The dialogs that rename or delete a wallet, an account or a private key.

import { submit } from "../api.js";
import { h } from "../dom.js";
import { dialog, done, field, toast } from "../ui.js";

// renameDialog gives something another name. name is the member of the activity that takes it.
export const renameDialog = ({ what, name, value, type, parameters, again }) => dialog({
  heading: `Rename ${what}`,
  fields: [field({ name, label: "Name", required: true, value })],
  action: "Save",
  run: async (all) => {
    if (all[name] === value) return toast("No changes to save.");
    done(await submit(type.toLowerCase(), type, { ...parameters, [name]: all[name] }), `It is called ${all[name]} now.`);
    again();
  },
});

// deleteDialog deletes something after saying what is lost. Of what was never exported, the name must be typed. then gets the activity.
export const deleteDialog = ({ what, name, exported, lost, type, parameters, then }) => dialog({
  heading: `Delete ${what}?`,
  intro: h("div", { class: "unread" }, h("p", { class: "strong" }, "This cannot be undone"), h("p", null, lost)),
  fields: exported ? [] : [field({ name: "typed", label: "Name", required: true, hint: `Type “${name}” to confirm.`, spellcheck: "false" })],
  action: "Delete", danger: true,
  run: async ({ typed }) => {
    if (!exported && typed !== name) {
      const message = "This is not the name. Nothing was deleted.";
      throw Object.assign(new Error(message), { fields: [{ field: "typed", description: message }] });
    }
    const activity = await submit(type.toLowerCase(), type, { ...parameters, deleteWithoutExport: !exported });
    done(activity, `Deleted ${what}.`);
    then(activity);
  },
});
