/** What a server, or the page itself, says went wrong: a sentence for people. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Asks the server that the page came from. @throws AnswerError with its sentence, or `offline` */
export async function ask<Answer>(
  path: string,
  parameters: Readonly<Record<string, string | number>> = {},
  order?: object,
): Promise<Answer> {
  const response = await send(path, parameters, order);
  return (await response.json()) as Answer;
}

/** An order that takes its time: tells how far it is, answers with its result. */
export async function order<Result>(
  path: string,
  body: object,
  onProgress: (outputTokens: number) => void,
  signal: AbortSignal,
): Promise<Result> {
  const response = await send(path, {}, body, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const said = JSON.parse(line) as {
        progress?: { outputTokens: number };
        result?: Result;
        error?: { code: string; message: string };
      };
      if (said.progress) onProgress(said.progress.outputTokens);
      if (said.error) throw new AnswerError(said.error.code, said.error.message);
      if ("result" in said) return said.result as Result;
    }
  }
  throw new AnswerError("offline", "The server stopped before it was done; nothing was changed.");
}

async function send(
  path: string,
  parameters: Readonly<Record<string, string | number>>,
  order?: object,
  signal?: AbortSignal,
): Promise<Response> {
  const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
  const address = query.size === 0 ? path : `${path}?${query}`;
  const options: RequestInit = order
    ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(order) }
    : {};
  const response = await fetch(address, { ...options, ...(signal ? { signal } : {}) }).catch(
    (cause: unknown) => {
      if (signal?.aborted) throw new AnswerError("aborted", "Stopped; nothing was changed.", { cause });
      throw new AnswerError("offline", "The server does not answer; is `espalier serve` still running?", {
        cause,
      });
    },
  );
  if (response.ok) return response;
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  throw new AnswerError(error.code, error.message);
}
