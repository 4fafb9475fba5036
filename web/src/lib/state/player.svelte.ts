/** Autoplay: a step every few seconds until the last one, or until someone stops it. */
import { place } from "./place.svelte";
import { studio } from "./studio.svelte";
import { moved, stepAt } from "./walk";

const PACE = 2200; // milliseconds a step

class Player {
  playing = $state(false);
  private timer: ReturnType<typeof setInterval> | undefined;

  toggle() {
    if (this.playing) this.stop();
    else this.play();
  }

  play() {
    this.playing = true;
    this.timer = setInterval(() => this.next(), PACE);
  }

  stop() {
    this.playing = false;
    clearInterval(this.timer);
  }

  private next() {
    const pass = studio.pass;
    const step = pass && stepAt(pass, place.spot.step);
    const to = pass && step ? moved(pass, step, 1) : null;
    if (!step || !to || to.id === step.id) return this.stop();
    place.go({ step: to.id }, true);
  }
}

export const player = new Player();
