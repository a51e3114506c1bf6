/*
 * version.h
 *		Version of the load generator: that of the extension it belongs to.
 */
#ifndef CONNBENCH_VERSION_H
#define CONNBENCH_VERSION_H

#define CONNBENCH_VERSION	"1.0"

#endif							/* CONNBENCH_VERSION_H */
