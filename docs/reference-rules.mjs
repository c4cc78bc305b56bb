// What the reference must say beyond that every name has a sentence. Names say much: `tokensBefore` is tokens, `delayMs`
// milliseconds. Two things no name says: what a bare number counts, and what holds where an option is left out. And the
// sentence has to be a type's own: typedoc gives one that has none that of what it extends.
import { Application, IntrinsicType, ReflectionKind, UnionType } from "typedoc";

/** Names that have their unit in them, or that every reader of APIs knows. */
const SAYS_ITS_UNIT =
  /(tokens?|ms|bytes|seconds?|percent|count|index|length|size|row|rows|line|lines|entries|messages|iterations|attempts|branches|compactions|version|status|pid|port|fd|exitCode)$|^(tokens|messages|entries|characters|attempts|count)/i;

const UNNAMED = ReflectionKind.TypeLiteral | ReflectionKind.CallSignature | ReflectionKind.Parameter;

/** A plugin of typedoc: it warns, and warnings are errors here. */
export function load(/** @type {Application} */ app) {
  app.on(Application.EVENT_VALIDATE_PROJECT, (project) => {
    for (const shape of project.getReflectionsByKind(ReflectionKind.Interface)) {
      if (shape.comment?.inheritedFromParentDeclaration)
        app.logger.warn(`${shape.getFriendlyFullName()} has no sentence of its own.`);
    }
    for (const property of project.getReflectionsByKind(ReflectionKind.Property)) {
      if (!property.isDeclaration() || property.inheritedFrom || isExplained(property)) continue;
      const missing = missingIn(property);
      if (missing) app.logger.warn(`${property.getFriendlyFullName()} does not say ${missing}.`);
    }
  });
}

/** By a sentence of its own; a field of an unnamed shape also by that of whatever has the shape. */
function isExplained(/** @type {import("typedoc").Reflection | undefined} */ reflection) {
  for (let at = reflection; at; at = at.parent) {
    if (at.hasComment()) return true;
    if (!at.kindOf(UNNAMED) && !at.parent?.kindOf(UNNAMED)) return false;
  }
  return false;
}

function missingIn(/** @type {import("typedoc").DeclarationReflection} */ property) {
  if (isNumber(property.type) && !SAYS_ITS_UNIT.test(property.name)) return "what its number counts";
  const owner = property.parent?.name ?? "";
  if (property.flags.isOptional && /(Options|Settings)$/.test(owner)) return "what holds without it";
  return undefined;
}

/** @returns {boolean} */
function isNumber(/** @type {import("typedoc").SomeType | undefined} */ type) {
  if (type instanceof UnionType) return type.types.some((one) => isNumber(one));
  return type instanceof IntrinsicType && type.name === "number";
}
