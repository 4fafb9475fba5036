/** A job that is looked at: its state, its curves and what its saved weights say, asked for again and again. */
import { untrack } from "svelte";
import { Refusal } from "../../api/client";
import { said } from "../../state/studio.svelte";
import { getJob, jobMetrics, jobSamples, type JobTold, type Samples } from "./api";
import { isAlive, withLines, type Curves, type Mark } from "./words";

const OFTEN = 1000; // milliseconds between two questions while it trains
const SELDOM = 5000; // and while it does not: someone may resume it elsewhere
const KEPT = 6; // answers of saved weights that stay side by side

export class Watch {
  job = $state.raw<JobTold | null>(null);
  curves = $state.raw<Curves>({});
  /** oldest first, each by the weights that were saved then */
  answers = $state.raw<Samples[]>([]);
  marks = $state.raw<Mark[]>([]);
  problem = $state<string | null>(null);
  private next = 0;
  private mark: string | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** of the round that is being asked: what an earlier one still hears is not taken, or lines would be told twice */
  private turn = 0;
  private over = false;
  private name = "";

  /** Begin to ask; what is given back ends it. */
  follow(name: string): () => void {
    [this.name, this.over] = [name, false];
    untrack(() => void this.round());
    return () => {
      this.over = true;
      this.turn++;
      clearTimeout(this.timer);
    };
  }

  /** Now rather than later: something was just asked of the job. */
  hurry(job: JobTold) {
    if (this.over) return;
    this.job = job;
    this.turn++;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.round(), OFTEN / 2);
  }

  private async round() {
    const mine = ++this.turn;
    let gone = false;
    try {
      const before = this.job?.state;
      const job = await getJob(this.name);
      const validated = await this.readMetrics(mine);
      if (mine !== this.turn) return;
      this.job = job;
      this.keepMark(job);
      if (validated || before !== job.state || !this.answers.length) await this.readSamples(mine);
      this.problem = null;
    } catch (error) {
      if (mine !== this.turn) return;
      this.problem = said(error);
      gone = error instanceof Refusal && error.status === 404;
    }
    const pause = this.job && isAlive(this.job.state) ? OFTEN : SELDOM;
    if (mine === this.turn && !gone) this.timer = setTimeout(() => void this.round(), pause);
  }

  /** Everything new; says whether a validation was among it. */
  private async readMetrics(mine: number): Promise<boolean> {
    let validated = false;
    for (let more = true; more && mine === this.turn; ) {
      const told = await jobMetrics(this.name, this.next, this.mark);
      if (mine !== this.turn) break;
      if (told.again) this.marks = [];
      if (told.again || told.lines.length) this.curves = withLines(this.curves, told);
      validated ||= told.lines.some((line) => Object.keys(line).some((name) => name.includes("/")));
      [this.next, this.mark, more] = [told.next, told.mark, told.more];
    }
    return validated;
  }

  private keepMark(job: JobTold) {
    const last = this.marks.at(-1);
    if (job.step === null || !isAlive(job.state) || last?.step === job.step) return;
    this.marks = [...this.marks.slice(-200), { at: job.active, step: job.step }];
  }

  private async readSamples(mine: number) {
    const told = await jobSamples(this.name);
    const last = this.answers.at(-1);
    if (mine !== this.turn || (last && last.saved === told.saved && last.note === told.note)) return;
    const earlier = this.answers.filter((one) => one.samples.length && one.samples.length === told.samples.length);
    this.answers = [...earlier, told].slice(-KEPT);
  }
}
