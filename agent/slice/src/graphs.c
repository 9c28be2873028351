/* Graphs that allocate: the memory comes at launch, which is not hooked, so a node counts from the day it is added
 * until its graph and every executable made from it are gone. */
#include <pthread.h>
#include <stdlib.h>

#include "account.h"
#include "core.h"

struct node {
    struct node *next;
    void *pool;
    uint64_t size;
};
struct nodes { /* shared by a graph and its executables */
    int references;
    struct node *first;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct nodes *nodes_of(CUgraph graph) { /* with the mutex held */
    struct block block;
    if (block_get(BLOCK_GRAPH, (uintptr_t)graph, &block)) return block.owner;
    struct nodes *nodes = calloc(1, sizeof *nodes);
    if (!nodes) return NULL;
    nodes->references = 1;
    if (block_put((struct block){.kind = BLOCK_GRAPH, .key = (uintptr_t)graph, .card = -1, .owner = nodes})) return nodes;
    free(nodes);
    return NULL;
}

CUresult graph_nodes_add(CUgraph graph, CUdevice device, uint64_t size) {
    int card;
    CUresult result = card_of_device(device, &card);
    if (result != CUDA_SUCCESS) return result;
    struct node *node = calloc(1, sizeof *node);
    if (!node) return CUDA_ERROR_OUT_OF_MEMORY;
    *node = (struct node){.pool = graph_pool_grow(device, card, size), .size = size};
    pthread_mutex_lock(&mutex);
    struct nodes *nodes = node->pool ? nodes_of(graph) : NULL;
    if (nodes) node->next = nodes->first, nodes->first = node;
    pthread_mutex_unlock(&mutex);
    if (nodes) return CUDA_SUCCESS;
    if (node->pool) pool_freed(node->pool, size);
    free(node);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void graph_nodes_undo(CUgraph graph) {
    struct block block;
    struct node *node = NULL;
    pthread_mutex_lock(&mutex);
    if (block_get(BLOCK_GRAPH, (uintptr_t)graph, &block)) {
        struct nodes *nodes = block.owner;
        if ((node = nodes->first)) nodes->first = node->next;
    }
    pthread_mutex_unlock(&mutex);
    if (node) pool_freed(node->pool, node->size);
    free(node);
}

static void drop(struct nodes *nodes) {
    pthread_mutex_lock(&mutex);
    bool last = --nodes->references == 0;
    pthread_mutex_unlock(&mutex);
    if (!last) return;
    for (struct node *node = nodes->first, *next; node; node = next) {
        next = node->next;
        pool_freed(node->pool, node->size);
        free(node);
    }
    free(nodes);
}

/* -- nodes --------------------------------------------------------------------------------------------------------- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    CHECK_OPEN();
    if (!params || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return REAL(cuGraphAddMemAllocNode)(node, graph, after, count, params);
    CUresult result = graph_nodes_add(graph, params->poolProps.location.id, params->bytesize);
    if (result != CUDA_SUCCESS) return result;
    result = REAL(cuGraphAddMemAllocNode)(node, graph, after, count, params);
    if (result != CUDA_SUCCESS) graph_nodes_undo(graph);
    return result;
}

static bool allocates(const CUgraphNodeParams *params) {
    return params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
           params->of.alloc.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult before_node(CUgraph graph, const CUgraphNodeParams *params) {
    if (!slice_open()) return CUDA_ERROR_SYSTEM_NOT_READY;
    if (!allocates(params)) return CUDA_SUCCESS;
    return graph_nodes_add(graph, params->of.alloc.poolProps.location.id, params->of.alloc.bytesize);
}

static CUresult after_node(CUresult result, CUgraph graph, const CUgraphNodeParams *params) {
    if (result != CUDA_SUCCESS && allocates(params)) graph_nodes_undo(graph);
    return result;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraphNodeParams *params) {
    CUresult result = before_node(graph, params);
    return result ? result : after_node(REAL(cuGraphAddNode)(node, graph, after, count, params), graph, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, CUgraphNodeParams *params) {
    CUresult result = before_node(graph, params);
    return result ? result : after_node(REAL(cuGraphAddNode_v2)(node, graph, after, edges, count, params), graph, params);
}

CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, CUgraphNodeParams *params) {
    CUresult result = before_node(graph, params);
    return result ? result : after_node(REAL(cuGraphAddNode_v3)(node, graph, after, edges, count, params), graph, params);
}

/* -- executables and ends ------------------------------------------------------------------------------------------ */

static CUresult instantiated(CUresult result, CUgraph graph, CUgraphExec *exec) {
    struct block block;
    if (result != CUDA_SUCCESS) return result;
    pthread_mutex_lock(&mutex);
    struct nodes *nodes = block_get(BLOCK_GRAPH, (uintptr_t)graph, &block) ? block.owner : NULL;
    if (nodes) nodes->references++;
    pthread_mutex_unlock(&mutex);
    if (!nodes || block_put((struct block){.kind = BLOCK_EXEC, .key = (uintptr_t)*exec, .card = -1, .owner = nodes}))
        return CUDA_SUCCESS;
    REAL(cuGraphExecDestroy)(*exec);
    drop(nodes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_size) {
    return instantiated(REAL(cuGraphInstantiate)(exec, graph, error_node, log, log_size), graph, exec);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_size) {
    return instantiated(REAL(cuGraphInstantiate_v2)(exec, graph, error_node, log, log_size), graph, exec);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    return instantiated(REAL(cuGraphInstantiateWithFlags)(exec, graph, flags), graph, exec);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params) {
    return instantiated(REAL(cuGraphInstantiateWithParams)(exec, graph, params), graph, exec);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params) {
    return instantiated(REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params), graph, exec);
}

static CUresult ended(CUresult result, struct block block) {
    if (block.kind == 0) return result;
    if (result == CUDA_SUCCESS) drop(block.owner);
    else block_put(block);
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    struct block block = block_take(BLOCK_EXEC, (uintptr_t)exec);
    return ended(REAL(cuGraphExecDestroy)(exec), block);
}

CUresult cuGraphDestroy(CUgraph graph) {
    struct block block = block_take(BLOCK_GRAPH, (uintptr_t)graph);
    return ended(REAL(cuGraphDestroy)(graph), block);
}
