/** Which of the two passes the other tabs look at. With `changed=1` in the address it is the one with the changes. */
import { runPass } from "../../api/client";
import { ServerSource } from "../../api/source";
import type { Change, Pass } from "../../api/types";
import { place, writeSpot } from "../../state/place.svelte";
import { said, studio } from "../../state/studio.svelte";
import { decode, encode, fitting } from "./changes";

export const HERE = "what-if";

/** The address of a tab that looks at the pass before the changes, or behind them. */
export function linkTo(tab: string, changed: boolean): string {
  const more = { ...place.spot.more };
  delete more.changed;
  return writeSpot({ ...place.spot, tab, more: changed ? { ...more, changed: "1" } : more });
}

/** What the address asks for; this tab itself always starts from the pass as it is. */
function wanted(pass: Pass): Change[] {
  if (place.spot.tab === HERE || place.own("changed") !== "1") return [];
  return fitting(decode(place.own("changes")), pass).fit;
}

let asked = "";

async function open(pass: Pass, changes: Change[]) {
  const name = JSON.stringify([pass.model.id, pass.inputs, encode(changes)]);
  if (asked === name) return;
  asked = name;
  studio.doing = `Running ${pass.model.name} ${changes.length ? "with the changes" : "as it is"}`;
  try {
    const made = await runPass(pass.model.id, pass.inputs, changes);
    if (asked === name && studio.pass?.id === pass.id) studio.source = new ServerSource(made);
  } catch (error) {
    studio.problem = said(error);
  }
  if (asked === name) studio.doing = null;
  asked = "";
}

/** From now on the pass that is open follows the address. */
export function follow() {
  $effect.root(() => {
    $effect(() => {
      const pass = studio.pass;
      if (!pass || studio.shared || studio.doing !== null || studio.problem !== null) return;
      const changes = wanted(pass);
      if (encode(changes) !== encode(pass.changes)) void open(pass, changes);
    });
  });
}
