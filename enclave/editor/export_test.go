package editor

// Notes are the notes about fields.
var Notes = notes
