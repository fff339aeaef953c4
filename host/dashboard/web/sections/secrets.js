// Secrets: their names and properties. Their contents never pass through this page: they are exported encrypted, to whom policies allow.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { button, confirm, copyable, done, empty, load, paged, problem, table, time, title } from "../ui.js";

const page = 50;

const secretsAfter = async (after) => (await query("list_secrets", { paginationOptions: { limit: String(page), ...(after && { after: after.secretId }) } })).secrets;

const named = (s) => s.name ?? "the secret without a name";

const secretTable = (all, remove) => table("Secrets", ["Name", "Properties", "Imported", "Id", ""], all.map((s) => [
  s.name ? h("span", { class: "strong" }, s.name) : "–",
  s.staticProperties.map((p) => h("p", null, h("code", { class: "wrap" }, `${p.key} = ${p.value}`))),
  time(Number(s.createdAtUnixMs)), copyable(s.secretId, `id of ${named(s)}`), button("Delete", { class: "button small", "aria-label": `Delete ${named(s)}`, onclick: () => remove(s) })]));

export function secrets(main) {
  const place = h("div");
  const failed = h("div");
  fill(main, title("Secrets", { intro: "Policies decide who may export a secret, and to which key, by its properties, which cannot be changed." }), place, failed);
  const remove = (s) => confirm(`Delete ${named(s)}?`, "Nobody can export it any more, and it cannot be brought back.", "Delete", async () => {
    done(await submit("delete_secrets", "DELETE_SECRETS", { secretIds: [s.secretId] }), "The secret was deleted.");
    again();
  });
  const again = load(place, "secrets", () => secretsAfter(), (first) =>
    first.length === 0 ? empty("There is no secret yet. Secrets are imported through the API.")
      : paged(first, page, secretsAfter, (all) => secretTable(all, remove), (error) => fill(failed, problem(error, () => fill(failed)))));
}
