// Marks what the shared library shows to its users; everything else in it is hidden.
#pragma once

#define SOW_API __attribute__((visibility("default")))
