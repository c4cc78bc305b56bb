/** A text as one line that a list can show: blanks of every kind are one space. Empty where it has nothing else. */
export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();
