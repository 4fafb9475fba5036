/** The newest answer to a question that changes: what was there stays until the next one is, or is refused. */
import { said } from "../../state/studio.svelte";

export class Latest<T> {
  value = $state.raw<T | null>(null);
  problem = $state<string | null>(null);
  doing = $state(false);
  private asked = 0;

  follow(promise: Promise<T>) {
    const number = ++this.asked;
    this.doing = true;
    promise.then(
      (value) => this.take(number, value, null),
      (error: unknown) => this.take(number, this.value, said(error)),
    );
  }

  private take(number: number, value: T | null, problem: string | null) {
    if (number !== this.asked) return;
    this.value = value;
    this.problem = problem;
    this.doing = false;
  }
}
