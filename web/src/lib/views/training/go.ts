/** From one part of Training to another, and out of it to a trained model. */
import { place } from "../../state/place.svelte";
import { studio } from "../../state/studio.svelte";

const OWN = ["job", "update", "at", "batch", "weight", "window", "wcell"];

function own(kept: Record<string, string>): Record<string, string> {
  const rest = Object.entries(place.spot.more).filter(([name]) => !OWN.includes(name));
  return { ...Object.fromEntries(rest), ...kept };
}

export const toAll = () => place.go({ tab: "training", more: own({}) });
export const toJob = (job: string) => place.go({ tab: "training", more: own({ job }) });
export const toUpdate = (update: string, job: string | null = null) => place.go({ tab: "training", more: own({ update, ...(job ? { job } : {}) }) });

/** What of an update is looked at. A new state or batch keeps the weight; null takes a name out of the address. */
export function look(change: Record<string, string | null>, quietly = false) {
  const more = { ...place.spot.more };
  for (const [name, value] of Object.entries(change)) {
    if (value === null) delete more[name];
    else more[name] = value;
  }
  place.go({ more }, quietly);
}

/** Go where some work leads, unless the reader has gone elsewhere meanwhile. */
export async function unlessLeft<T>(work: Promise<T>, go: (done: T) => void) {
  const here = place.spot;
  const done = await work;
  if (place.spot === here) go(done);
}

/** The weights may be newer than the page: the shelf is read again first. */
export const openModel = (model: string) =>
  unlessLeft(studio.start(), () => place.go({ tab: "step", model, inputs: {}, step: null, cell: null, head: 0, zoom: "part" }));
