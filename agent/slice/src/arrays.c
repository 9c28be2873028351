/* Arrays: their size is worked out beforehand and corrected by what the driver says it takes, where it says so. */
#include "account.h"
#include "core.h"

/* Bits of one element of one channel. A format unknown to us counts as the widest there is. */
static uint64_t bits_of(int format) {
    switch (format) {
        case 0x01: case 0x08: return 8;
        case 0x02: case 0x09: case 0x10: return 16;
        case 0x03: case 0x0a: case 0x20: return 32;
        default: return 64;
    }
}

static bool array_size(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, uint64_t *size) {
    uint64_t width = d->Width, height = d->Height, depth = d->Depth, channels = d->NumChannels ? d->NumChannels : 1;
    *size = 0;
    if (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) return true; /* no memory yet */
    for (unsigned int level = 0; level < levels && level < 64; level++) {
        uint64_t bytes;
        if (__builtin_mul_overflow(width ? width : 1, height ? height : 1, &bytes) ||
            __builtin_mul_overflow(bytes, depth ? depth : 1, &bytes) ||
            __builtin_mul_overflow(bytes, channels * bits_of(d->Format) / 8, &bytes) ||
            __builtin_add_overflow(*size, bytes, size)) return false;
        width = width > 1 ? width / 2 : width;
        height = height > 1 ? height / 2 : height;
        if (!(d->Flags & 1)) depth = depth > 1 ? depth / 2 : depth; /* layers do not shrink */
    }
    return true;
}

struct made { int card; CUdevice device; uint64_t size; };

static CUresult before(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels, struct made *made) {
    if (!slice_open()) return CUDA_ERROR_SYSTEM_NOT_READY;
    if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = current_card(&made->card, &made->device);
    if (result != CUDA_SUCCESS) return result;
    return array_size(descriptor, levels, &made->size) && reserve(made->card, made->size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* needs: what the driver says of the new array, size 0 if it says nothing. False: it cannot be kept. */
static bool after(struct made *made, int kind, void *array, uint64_t needs) {
    if (needs && made->size) {
        if (!settle(made->card, made->size, needs)) return false;
        made->size = needs;
    }
    return keep(kind, (uintptr_t)array, made->card, made->size, NULL);
}

static CUresult array_made(CUresult result, struct made *made, CUarray *array) {
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
    if (result == CUDA_SUCCESS) {
        if (REAL(cuArrayGetMemoryRequirements)(&needs, *array, made->device) != CUDA_SUCCESS) needs.size = 0;
        if (after(made, BLOCK_ARRAY, *array, needs.size)) return CUDA_SUCCESS;
        REAL(cuArrayDestroy)(*array);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    slice_release(made->card, made->size);
    return result;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d) {
    struct made made;
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    CUresult result = before(&full, 1, &made);
    return result ? result : array_made(REAL(cuArrayCreate_v2)(array, d), &made, array);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    struct made made;
    CUresult result = before(descriptor, 1, &made);
    return result ? result : array_made(REAL(cuArray3DCreate_v2)(array, descriptor), &made, array);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels) {
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
    struct made made;
    CUresult result = before(descriptor, levels, &made);
    if (result != CUDA_SUCCESS) return result;
    if ((result = REAL(cuMipmappedArrayCreate)(array, descriptor, levels)) == CUDA_SUCCESS) {
        if (REAL(cuMipmappedArrayGetMemoryRequirements)(&needs, *array, made.device) != CUDA_SUCCESS) needs.size = 0;
        if (after(&made, BLOCK_MIPMAP, *array, needs.size)) return CUDA_SUCCESS;
        REAL(cuMipmappedArrayDestroy)(*array);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    slice_release(made.card, made.size);
    return result;
}

static CUresult destroyed(CUresult result, struct block block) {
    if (block.kind == 0) return result;
    if (result == CUDA_SUCCESS) block_end(block);
    else block_put(block);
    return result;
}

CUresult cuArrayDestroy(CUarray array) {
    struct block block = block_take(BLOCK_ARRAY, (uintptr_t)array);
    return destroyed(REAL(cuArrayDestroy)(array), block);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
    struct block block = block_take(BLOCK_MIPMAP, (uintptr_t)array);
    return destroyed(REAL(cuMipmappedArrayDestroy)(array), block);
}

CUresult cuArrayCreate(CUarray *array, const void *descriptor) { /* 32-bit, from before CUDA 3.2 */
    (void)array, (void)descriptor;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuArray3DCreate(CUarray *array, const void *descriptor) { /* 32-bit, from before CUDA 3.2 */
    (void)array, (void)descriptor;
    return CUDA_ERROR_NOT_SUPPORTED;
}
