/** Answers that this process is streaming, for pages that are loaded again. Made by {@link liveStreams}. */
export interface LiveStreams {
  /**
   * Keeps a stream until it ends, and reads it even if no client listens; for `consumeSseStream` of the AI SDK. Another
   * stream with the same id replaces it.
   */
  keep(id: string, stream: ReadableStream<string>): void;
  /** Returns the stream from its beginning, as bytes for a response; null when no stream is running: answer 204. */
  resume(id: string): ReadableStream<Uint8Array> | null;
}

/** The next piece of a stream, and the one after it; undefined at the end. Rejects when the stream broke. */
type Link = Promise<{ piece: Uint8Array; next: Link } | undefined>;

/**
 * Makes a {@link LiveStreams}. It has an answer only while the answer is streamed. The session has the answer before
 * the stream ends, and also after the end of the process.
 */
export function liveStreams(): LiveStreams {
  const streams = new Map<string, Link>();
  return {
    keep(id, stream) {
      // The first link holds all others, for readers that join later.
      const first = linkTo(piecesOf(stream));
      streams.set(id, first);
      void endOf(first).then(() => {
        if (streams.get(id) === first) streams.delete(id);
      });
    },
    resume(id) {
      let next = streams.get(id);
      if (!next) return null;
      return new ReadableStream<Uint8Array>({
        async pull(controller) {
          const link = await next;
          if (!link) return controller.close();
          controller.enqueue(link.piece);
          next = link.next;
        },
      });
    },
  };
}

async function* piecesOf(stream: ReadableStream<string>): AsyncGenerator<Uint8Array, undefined> {
  const encoder = new TextEncoder();
  for await (const piece of stream as unknown as AsyncIterable<string>) yield encoder.encode(piece);
}

/** Reads a stream to its end, whether or not anyone reads the links. */
async function linkTo(pieces: AsyncGenerator<Uint8Array, undefined>): Link {
  const { value } = await pieces.next();
  return value && { piece: value, next: linkTo(pieces) };
}

/** Waits for the end of a stream. Does not reject: readers of the stream receive its error. */
async function endOf(first: Link): Promise<void> {
  try {
    for (let link = await first; link; ) link = await link.next;
  } catch {
    // Readers receive the error.
  }
}
