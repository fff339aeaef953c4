// Programs: apps that run in enclaves of their own, their deployments, who approves them and who holds shares of their keys.

import { query, submit } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, confirm, copyable, done, download, empty, facts, load, loadOne, panel, table, title, toast, when, words } from "../ui.js";

const list = async (app) => {
  const [{ tvcDeployments }, { appStatus }] = await Promise.all([query("list_tvc_app_deployments", { appId: app }), query("get_app_status", { appId: app })]);
  return tvcDeployments.map((d) => ({ ...d, status: appStatus.deployments.find((s) => s.deploymentId === d.id) }));
};

// state is how far a deployment has come. What runs is the host's word; the boot proof is the proof.
function state(d) {
  if (d.delete) return badge("Deleted", "bad");
  const have = d.manifestApprovals.length, need = d.manifestSet.threshold;
  if (!d.status) return badge(`${have} of ${need} approvals`, "wait");
  if (d.status.provisioningState === "PROVISIONING_STATE_AWAITING_PROVISION") return badge("Waits for shares", "wait");
  return badge(`${d.status.readyReplicas} of ${d.status.desiredReplicas} running`, d.status.readyReplicas === d.status.desiredReplicas ? "good" : "wait");
}

const operators = (set) => h("div", null, h("p", null, `${set.threshold} of ${set.operators.length}`), h("p", { class: "note" }, set.operators.map((o) => o.name).join(", ")));

export function programs(main, [id, deployment]) {
  if (deployment) one(main, id, deployment);
  else if (id) app(main, id);
  else all(main);
}

function all(main) {
  const place = h("div");
  fill(main, title("Programs", { intro: "Programs of this organization that run in enclaves of their own. They are made through the API." }), place);
  load(place, "programs", async () => (await query("list_tvc_apps")).tvcApps, (apps) =>
    apps.length === 0 ? empty("There is no program yet.")
      : table("Programs", ["Name", "Approve", "Hold shares", "Public name", "Id"], apps.map((a) => [
        h("a", { href: `#/programs/${a.id}`, class: "strong" }, a.name), operators(a.manifestSet), operators(a.shareSet), a.publicDomain || "–", copyable(a.id, `id of ${a.name}`)])));
}

function app(main, id) {
  loadOne(main, "the program", "Program", { href: "#/programs", text: "Programs" }, async () => ({ app: (await query("get_tvc_app", { tvcAppId: id })).tvcApp, deployments: await list(id) }), ({ app: a, deployments }) => {
    const remove = () => confirm(`Delete ${a.name} and its deployments?`, "Everything of it stops. Its manifests and approvals are deleted with it.", "Delete", async () => {
      done(await submit("delete_tvc_app_and_deployments", "DELETE_TVC_APP_AND_DEPLOYMENTS", { appId: id }), "The program was deleted.");
      location.hash = "#/programs";
    });
    return [
      title(a.name, { back: { href: "#/programs", text: "Programs" }, actions: [button("Delete", { onclick: remove })] }),
      panel("Program", facts([
        ["Quorum key", copyable(a.quorumPublicKey, "the quorum key")],
        ["Approve deployments", operators(a.manifestSet)],
        ["Hold shares of the key", operators(a.shareSet)],
        a.enableDebugModeDeployments && ["Debug mode", "allowed: treat its key as public"],
        ["Public name", a.publicDomain || "–"],
        ["Id", copyable(a.id, "the id")],
      ])),
      panel("Deployments", deployments.length === 0 ? empty("There is no deployment yet.")
        : table("Deployments", ["Image", "Created", "Status", ""], deployments.map((d) => [
          h("a", { class: "strong", href: `#/programs/${id}/${d.id}` }, h("code", { class: "wrap" }, d.pivotContainer.containerUrl)), when(d.createdAt), state(d), a.liveDeploymentId === d.id ? badge("Live", "good") : null])),
      { note: "How many run is what the host says. What proves it is the boot proof." }),
    ];
  });
}

function one(main, id, deployment) {
  const back = { href: `#/programs/${id}`, text: "Program" };
  loadOne(main, "the deployment", "Deployment", back, async () => ({ app: (await query("get_tvc_app", { tvcAppId: id })).tvcApp, d: (await list(id)).find((d) => d.id === deployment) }), ({ app: a, d }, again) => {
    if (!d) return [title("Deployment", { back }), empty("There is no such deployment of this program.")];
    const manifest = new TextDecoder().decode(Uint8Array.from(atob(d.manifest.manifest), (c) => c.charCodeAt(0)));
    const act = (operation, type, message) => async () => {
      try {
        done(await submit(operation, type, { deploymentId: d.id }), message);
        again();
      } catch (error) {
        toast(error.message);
      }
    };
    const waits = d.status?.provisioningState === "PROVISIONING_STATE_AWAITING_PROVISION";
    const hosted = d.shareSet.operators.filter((o) => o.keySource === "ORG_WALLET_ACCOUNT");
    // The enclave verifies the waiting one before it gives the share: this page only carries the document.
    const give = (o) => async () => {
      try {
        const { attestationDocument, manifestEnvelope } = await query("get_tvc_deployment_provisioning_details", { deploymentId: d.id });
        done(await submit("re_encrypt_tvc_quorum_key_share", "RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", { attestationDocB64: attestationDocument, manifestB64: manifestEnvelope, deploymentId: d.id, appQuorumKey: a.quorumPublicKey,
          operatorEncryptKey: o.encryptPublicKey, operatorSignKey: o.signPublicKey }), `The share of ${o.name} was given.`);
        again();
      } catch (error) {
        toast(error.message);
      }
    };
    return [
      title("Deployment", { back, actions: [
        !d.delete && d.status && a.liveDeploymentId !== d.id && button("Make live", { onclick: act("set_tvc_app_live_deployment", "UPDATE_TVC_APP_LIVE_DEPLOYMENT", "It is the live deployment now.") }),
        d.delete ? button("Restore", { onclick: act("restore_tvc_deployment", "RESTORE_TVC_DEPLOYMENT", "The deployment was restored.") })
          : button("Delete", { onclick: () => confirm("Delete this deployment?", "It stops. It can be restored.", "Delete", act("delete_tvc_deployment", "DELETE_TVC_DEPLOYMENT", "The deployment was deleted.")) })] }),
      panel("What runs", facts([
        ["Status", h("span", null, state(d), " ", a.liveDeploymentId === d.id && badge("Live", "good"))],
        d.debugMode && ["Debug mode", "the host reads along: keep no secret in it"],
        ["Image", h("code", { class: "wrap" }, d.pivotContainer.containerUrl)],
        ["Program", h("code", { class: "wrap" }, [d.pivotContainer.path, ...d.pivotContainer.args].join(" "))],
        ["Base image", d.qosVersion],
        ["Health check", `${words(d.pivotContainer.healthCheckType, "TVC_HEALTH_CHECK_TYPE_")} at port ${d.pivotContainer.healthCheckPort}`],
        ["Public port", d.pivotContainer.publicIngressPort],
        ["Id", copyable(d.id, "the id")],
      ])),
      panel("Approvals", table("Approvals", ["Operator", "Approved"], d.manifestSet.operators.map((o) => [o.name, when(d.manifestApprovals.find((x) => x.operator.id === o.id)?.createdAt, { both: true })])),
        { note: "Each operator signs the manifest's hash with a tool of his own, such as cloister-verify program-approve." }),
      waits && hosted.length > 0 && panel("Shares of operators whose keys are in wallets here", table("Shares", ["Operator", ""], hosted.map((o) => [o.name, button("Give share", { class: "button small", "aria-label": `Give share of ${o.name}`, onclick: give(o) })])),
        { note: "The enclave verifies the waiting one and encrypts the share to it." }),
      panel("Manifest", h("pre", { class: "wrap" }, JSON.stringify(JSON.parse(manifest), null, 2)), { actions: [button("Download", { onclick: () => download(`manifest-${d.id}.json`, manifest) })] }),
    ].filter(Boolean);
  });
}
