mermaid.initialize({
  securityLevel: "strict",
  sequence: {
    actorFontSize: 13,
    actorMargin: 8,
    diagramMarginX: 4,
    messageFontSize: 13,
    noteFontSize: 13,
    // In its own size, and scrolled if need be: shrunk to a telephone it could not be read.
    useMaxWidth: false,
    width: 128,
    wrap: true,
  },
  startOnLoad: true,
  theme: "neutral",
});
