/*
 * unit.h
 *		What every unit test includes: cmocka and what it wants first.
 */
#ifndef CONNBENCH_UNIT_H
#define CONNBENCH_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif							/* CONNBENCH_UNIT_H */
