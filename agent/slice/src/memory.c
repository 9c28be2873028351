/* Plain allocations: charge first, allocate, remember; forget first, free, give back. */
#include "account.h"
#include "core.h"

static CUresult keep_pointer(CUresult result, CUdeviceptr *pointer, int card, uint64_t size) {
    if (result != CUDA_SUCCESS) {
        slice_release(card, size);
        return result;
    }
    if (keep(BLOCK_POINTER, *pointer, card, size, NULL)) return CUDA_SUCCESS;
    if (REAL(cuMemFree_v2)(*pointer) == CUDA_SUCCESS) slice_release(card, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
    int card;
    CHECK_OPEN();
    CUresult result = current_card(&card, NULL);
    if (result != CUDA_SUCCESS) return result;
    if (!reserve(card, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    return keep_pointer(REAL(cuMemAlloc_v2)(pointer, size), pointer, card, size);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned int flags) {
    int card;
    CHECK_OPEN();
    CUresult result = current_card(&card, NULL);
    if (result != CUDA_SUCCESS) return result;
    if (!reserve(card, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    return keep_pointer(REAL(cuMemAllocManaged)(pointer, size, flags), pointer, card, size);
}

/* The driver chooses the pitch, so the true size is known afterwards: charge the rows as they are, then the rest. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element) {
    int card;
    CHECK_OPEN();
    CUresult result = current_card(&card, NULL);
    if (result != CUDA_SUCCESS) return result;
    uint64_t size, true_size;
    if (__builtin_mul_overflow((uint64_t)width, (uint64_t)height, &size) || !reserve(card, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    if (result != CUDA_SUCCESS) return keep_pointer(result, pointer, card, size);
    true_size = (uint64_t)*pitch * height;
    if (settle(card, size, true_size)) return keep_pointer(CUDA_SUCCESS, pointer, card, true_size);
    if (REAL(cuMemFree_v2)(*pointer) == CUDA_SUCCESS) slice_release(card, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static struct block take_pointer(CUdeviceptr pointer) {
    struct block block = block_take(BLOCK_POINTER, pointer);
    return block.kind ? block : block_take(BLOCK_POOLED, pointer);
}

static CUresult freed(CUresult result, struct block block) {
    if (block.kind == 0) return result;
    if (result == CUDA_SUCCESS) block_end(block);
    else block_put(block);
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    CHECK_OPEN();
    struct block block = take_pointer(pointer);
    return freed(REAL(cuMemFree_v2)(pointer), block);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    CHECK_OPEN();
    struct block block = take_pointer(pointer);
    return freed(REAL(cuMemFreeAsync)(pointer, stream), block);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    CHECK_OPEN();
    struct block block = take_pointer(pointer);
    return freed(REAL(cuMemFreeAsync_ptsz)(pointer, stream), block);
}

/* Another process's memory stays there as long as it is open here, so it counts here as well. */
static CUresult opened(CUresult result, CUdeviceptr *pointer, CUresult (*close)(CUdeviceptr)) {
    int card;
    CUdeviceptr base;
    size_t size = 0;
    if (result != CUDA_SUCCESS) return result;
    result = REAL(cuMemGetAddressRange_v2)(&base, &size, *pointer);
    if (result == CUDA_SUCCESS) result = card_of_pointer(*pointer, &card);
    if (result == CUDA_SUCCESS && reserve(card, size)) {
        if (keep(BLOCK_POINTER, *pointer, card, size, NULL)) return CUDA_SUCCESS;
        slice_release(card, size);
    }
    close(*pointer);
    return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) {
    CHECK_OPEN();
    return opened(REAL(cuIpcOpenMemHandle)(pointer, handle, flags), pointer, REAL(cuIpcCloseMemHandle));
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) {
    CHECK_OPEN();
    return opened(REAL(cuIpcOpenMemHandle_v2)(pointer, handle, flags), pointer, REAL(cuIpcCloseMemHandle));
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    CHECK_OPEN();
    struct block block = block_take(BLOCK_POINTER, pointer);
    return freed(REAL(cuIpcCloseMemHandle)(pointer), block);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
    CHECK_OPEN();
    return opened(REAL(cuMemPoolImportPointer)(pointer, pool, data), pointer, REAL(cuMemFree_v2));
}

/* The calls from before CUDA 3.2, with 32-bit sizes and addresses: no program of today uses them; refused. */
CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int size) {
    (void)pointer, (void)size;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element) {
    (void)pointer, (void)pitch, (void)width, (void)height, (void)element;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemFree(CUdeviceptr_v1 pointer) {
    (void)pointer;
    return CUDA_ERROR_NOT_SUPPORTED;
}
