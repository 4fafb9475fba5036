import type { View } from "..";
import Training from "./Training.svelte";

export default { id: "training", title: "Training", component: Training, needs: "nothing" } satisfies View;
