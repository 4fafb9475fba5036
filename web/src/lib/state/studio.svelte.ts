/** What is open: the models on the shelf and the pass that is shown. */
import { LeftOut, models, Refusal, runPass } from "../api/client";
import { PageSource, sharedDocument } from "../api/shared";
import { ServerSource, type Source } from "../api/source";
import type { ModelCard } from "../api/types";
import { given, place, type Given } from "./place.svelte";

class Studio {
  shelf = $state.raw<ModelCard[]>([]);
  source = $state.raw<Source | null>(null);
  /** What is being done, in words; null when nothing is. */
  doing = $state<string | null>("Asking which models there are");
  problem = $state<string | null>(null);
  /** The page is a shared file: the pass is inside it, and nothing can be run. */
  shared = $state(false);
  notes = $state.raw<string[]>([]);
  /** Why the pass that is shown had to be made once more; null where it did not. */
  remade = $state<string | null>(null);
  private asked = "";
  private running: AbortController | null = null;

  get pass() {
    return this.source?.pass ?? null;
  }

  get card(): ModelCard | null {
    if (this.shared) return this.pass?.model ?? null;
    return this.shelf.find((card) => card.id === place.spot.model) ?? null;
  }

  async start() {
    try {
      if (!this.openShared()) this.shelf = await models();
      this.problem = null;
    } catch (error) {
      this.problem = said(error);
    }
    this.doing = null;
  }

  private openShared(): boolean {
    const inside = sharedDocument();
    if (!inside) return false;
    this.shared = true;
    this.notes = inside.notes;
    this.source = new PageSource(inside);
    return true;
  }

  /** Make the pass that the address asks for, unless it is open already. */
  async follow(model: string | null, inputs: Given) {
    const wanted = JSON.stringify([model, inputs]);
    if (this.shared || wanted === this.asked) return;
    this.asked = wanted;
    this.running?.abort();
    this.problem = this.remade = null;
    if (model === null) {
      this.source = null;
      return;
    }
    const card = this.shelf.find((one) => one.id === model);
    if (!card) return this.refuse(`There is no model called “${model}” here. Choose one above, or start the studio with its folder.`);
    if (card.problem) return this.refuse(card.problem);
    await this.run(card, Object.keys(inputs).length ? inputs : given(card.example), wanted);
  }

  private refuse(problem: string) {
    this.source = null;
    this.doing = null;
    this.problem = problem;
  }

  private async run(card: ModelCard, inputs: Given, wanted: string) {
    this.running = new AbortController();
    this.doing = `Running ${card.name} and recording every step`;
    try {
      const pass = await runPass(card.id, inputs, [], this.running.signal);
      if (this.asked === wanted) this.source = new ServerSource(pass);
    } catch (error) {
      if (this.asked === wanted) this.problem = said(error);
    }
    if (this.asked === wanted) this.doing = null;
  }

  /** Once more, for a pass that the server has dropped meanwhile. `why`: its refusal, in its own words. */
  async again(why = "this pass was forgotten") {
    if (this.doing !== null) return; // several views may notice at once
    this.asked = "";
    const made = this.follow(place.spot.model, place.spot.inputs);
    this.remade = why.replace(/: run it again$/, "");
    await made;
  }
}

export function said(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  return error instanceof Error ? `The page made a mistake: ${error.message}` : String(error);
}

/** What stands over it: nothing did not work where a shared page was made without it. */
export function titled(error: unknown): string | null {
  return error instanceof LeftOut ? "Left out of this page" : null;
}

export const studio = new Studio();
