/** Into the clipboard; a browser that forbids it says so, and the reader can select the words himself. */
export async function copied(words: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    return false;
  }
}
