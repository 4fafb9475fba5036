/** The views that need no server: a shared file, which has the pass inside, shows these alone. */
export const IN_A_FILE = new Set(["step", "attention", "share"]);

/** Whether this page is such a file. */
export const inFile = typeof document !== "undefined" && document.getElementById("clearhead-shared") !== null;
