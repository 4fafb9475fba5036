import type { View } from "..";
import Attention from "./Attention.svelte";

export default { id: "attention", title: "Attention", component: Attention, needs: "pass", rail: true } satisfies View;
