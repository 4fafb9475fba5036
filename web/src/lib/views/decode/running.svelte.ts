/** One writing at a time: a new one stops the old one, and what an old one still says is not heard. */
import { said } from "../../state/studio.svelte";
import { search, write, type Decoded, type DecodeStep, type DecodeWanted } from "./api";

export class Running {
  /** what was written so far, by greedy and drawn writing */
  steps = $state.raw<DecodeStep[]>([]);
  whole = $state.raw<Decoded | null>(null);
  doing = $state<string | null>(null);
  problem = $state<string | null>(null);
  private now: AbortController | null = null;

  stop() {
    this.now?.abort();
    this.now = null;
    this.doing = null;
  }

  async start(wanted: DecodeWanted) {
    this.stop();
    const mine = (this.now = new AbortController());
    const heard = () => this.now === mine;
    this.problem = null;
    this.doing = wanted.mode === "beam" ? "Searching" : "Writing";
    try {
      if (wanted.mode === "beam") {
        const whole = await search(wanted, mine.signal);
        if (heard()) [this.whole, this.steps] = [whole, []];
      } else await this.watch(wanted, mine, heard);
    } catch (error) {
      if (heard() && !mine.signal.aborted) this.problem = said(error);
    }
    if (heard()) this.doing = null;
  }

  private async watch(wanted: DecodeWanted, mine: AbortController, heard: () => boolean) {
    let first = true;
    const step = (one: DecodeStep) => {
      if (!heard()) return;
      this.steps = first ? [one] : [...this.steps, one];
      if (first) this.whole = null;
      first = false;
    };
    await write(wanted, { step, end: (whole) => heard() && (this.whole = whole) }, mine.signal);
  }
}
