import type { View } from "..";
import { follow } from "./opened.svelte";
import WhatIf from "./WhatIf.svelte";

follow();

export default { id: "what-if", title: "What if", component: WhatIf, needs: "pass" } satisfies View;
