/** Server-sent events out of a body that comes in pieces: a piece may end inside an event, a line or a letter. */
export interface ServerEvent {
  name: string;
  data: string;
}

export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let kept = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      kept += decoder.decode(value, { stream: !done });
      const parts = kept.split(/\r?\n\r?\n/);
      kept = parts.pop() ?? "";
      for (const part of parts) yield eventOf(part);
      if (done) return;
    }
  } finally {
    reader.releaseLock();
  }
}

function eventOf(text: string): ServerEvent {
  let name = "message";
  const data: string[] = [];
  for (const line of text.split(/\r?\n/)) {
    const found = /^(\w+): ?(.*)$/.exec(line);
    if (found?.[1] === "event") name = found[2]!;
    else if (found?.[1] === "data") data.push(found[2]!);
  }
  return { name, data: data.join("\n") };
}
