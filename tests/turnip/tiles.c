// Mesa's copy into a tiled image, by numbers alone.

#include <string.h>
#include "freedreno_layout.h"

__attribute__((visibility("default")))
void tile(char *tiled, const char *linear, unsigned item_bytes, unsigned width, unsigned height,
          unsigned pitch, unsigned bank_bit, unsigned levels, unsigned mode)
{
    struct fdl_layout layout;
    memset(&layout, 0, sizeof(layout));
    layout.cpp = item_bytes;
    layout.cpp_shift = __builtin_ctz(item_bytes);
    layout.width0 = width, layout.height0 = height, layout.depth0 = 1;
    layout.pitch0 = pitch, layout.tile_mode = 3, layout.tile_all = true;
    struct fdl_ubwc_config config = {
        .highest_bank_bit = bank_bit, .bank_swizzle_levels = levels,
        .macrotile_mode = (enum fdl_macrotile_mode)mode,
    };
    fdl6_memcpy_linear_to_tiled(0, 0, width, height, tiled, linear, &layout, 0,
                                width * item_bytes, &config);
}
