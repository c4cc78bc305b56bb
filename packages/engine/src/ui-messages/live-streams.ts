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
      const reader = stream.pipeThrough(new TextEncoderStream()).getReader();
      // The first link holds all others, for readers that join later.
      const first = linkTo(reader);
      streams.set(id, first);
      const end = () => {
        if (streams.get(id) === first) streams.delete(id);
      };
      reader.closed.then(end, end);
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

/** Reads a stream to its end, whether or not anyone reads the links. */
function linkTo(reader: ReadableStreamDefaultReader<Uint8Array>): Link {
  const link = reader.read().then(({ value }) => value && { piece: value, next: linkTo(reader) });
  // Readers of the stream receive its error.
  link.catch(() => undefined);
  return link;
}
