import { timingSafeEqual } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import { ViewerError } from "./viewer-error.ts";

/** Headers of every answer, refusals among them: nothing is stored, guessed, framed, or told to another page. */
export const safeHeaders: MiddlewareHandler = async (context, next) => {
  await next();
  const { headers: answer } = context.res;
  answer.set("cache-control", "no-store");
  answer.set("referrer-policy", "no-referrer");
  answer.set("x-content-type-options", "nosniff");
  answer.set("x-frame-options", "DENY");
  answer.set("cross-origin-resource-policy", "same-origin");
  answer.set("cross-origin-opener-policy", "same-origin");
};

/**
 * Lets in who knows the token, asks for this machine by name, and comes from no other page. A page of another origin
 * that guesses the port can then neither read nor write, nor can a name that somebody points at 127.0.0.1.
 *
 * @param token stands first in every path
 */
export function guard(token: string): MiddlewareHandler {
  const wanted = Buffer.from(token);
  return async (context, next) => {
    const { headers, url } = context.req.raw;
    const host = headers.get("host") ?? "";
    if (!isLocal(host)) throw forbidden("This server answers to 127.0.0.1 and localhost only.");
    const origin = headers.get("origin");
    if (origin !== null && origin !== `http://${host}`)
      throw forbidden("Another page cannot ask this server; open the address that was printed.");
    const site = headers.get("sec-fetch-site");
    if (site !== null && site !== "same-origin" && site !== "none" && context.req.method !== "GET")
      throw forbidden("Another page cannot change anything here.");
    const given = Buffer.from(new URL(url).pathname.split("/")[1] ?? "");
    if (given.length !== wanted.length || !timingSafeEqual(given, wanted))
      throw new ViewerError("not-found", "There is nothing here; open the address that the server printed.");
    await next();
  };
}

const isLocal = (host: string): boolean => /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(host);

const forbidden = (message: string): ViewerError => new ViewerError("forbidden", message);
