/** Asks for both passes a moment after the last change; what was there stays until the new answer is. */
import { runPass } from "../../api/client";
import type { Pass } from "../../api/types";
import { said } from "../../state/studio.svelte";
import { whatIf, type Question, type WhatIf } from "./api";

const PAUSE = 140; // milliseconds without a change

export interface Answer {
  question: Question;
  result: WhatIf;
  /** the pass behind the changes, for what it says at every place */
  after: Pass;
}

export class Asking {
  answer = $state.raw<Answer | null>(null);
  problem = $state<string | null>(null);
  doing = $state(false);
  private running: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  ask(question: Question) {
    this.stop();
    this.doing = true;
    this.timer = setTimeout(() => void this.run(question), this.answer ? PAUSE : 0);
  }

  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
  }

  private async run(question: Question) {
    const control = (this.running = new AbortController());
    try {
      const result = await whatIf(question, control.signal);
      const after = await runPass(question.model, question.inputs, question.changes, control.signal);
      if (control.signal.aborted) return;
      this.answer = { question, result, after };
      this.problem = null;
    } catch (error) {
      if (control.signal.aborted) return;
      this.problem = said(error);
    }
    this.doing = false;
  }
}
