import type { View } from "..";
import StepThrough from "./StepThrough.svelte";

export default { id: "step", title: "Step through", component: StepThrough, needs: "pass", rail: true } satisfies View;
