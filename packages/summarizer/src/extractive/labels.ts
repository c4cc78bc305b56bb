/** How lines of a summary begin. Written by one round and recognised by the next. */
export const LABELS = {
  firstRequest: "First request: ",
  earlierRequest: "Earlier request: ",
  newestRequest: "Newest request: ",
  newestWords: "Newest words: ",
  commands: "Commands: ",
  defines: "defines ",
  otherNames: "Other names: ",
  otherPaths: "Other paths: ",
  values: "Values: ",
  links: "Links: ",
  olderFailures: "Failed, never seen to succeed: ",
} as const;
