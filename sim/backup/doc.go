// Package backup takes backups of a deployment under load and restores them on
// empty machines; opens data directories of earlier releases; and loses root keys.
package backup
